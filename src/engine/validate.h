// Whether a request can be run at all. Asked before it joins the queue, so that nothing after it can fail on a value.
#pragma once

#include <optional>
#include <string>

#include "engine/request.h"
#include "engine/scheduler.h"

namespace nibble {

struct RequestLimits {
  int vocab{0};
  int max_context{0};  // prompt and output together
  SchedulerOptions scheduler{};
};

// The most tokens that the answer may have: what was asked for, cut to what is left of the context. Where nothing was
// asked for also to what the cache holds, so that this default never fails. 0 or less: there is no room for an answer.
int max_output_tokens(const Request& request, const RequestLimits& limits);

// Nothing if it can be run. Else one line: what, where, what to do.
std::optional<std::string> find_fault(const Request& request, const RequestLimits& limits);

}  // namespace nibble
