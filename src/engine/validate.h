// Checks whether a request can be run at all. Called before it joins the queue, so that no later code can fail on a value.
#pragma once

#include <optional>
#include <string>

#include "engine/generation_request.h"
#include "engine/scheduler.h"

namespace nibble {

struct RequestLimits {
  int vocab{0};
  int max_context{0};  // prompt and output together
  SchedulerOptions scheduler{};
};

// The most tokens that the answer may have: max_tokens, cut to the room left in the context. If max_tokens is not given, it
// is also cut to what the KV cache holds, so that the default never fails. 0 or less: there is no room for an answer.
int max_output_tokens(const GenerationRequest& request, const RequestLimits& limits);

// Returns nothing if the request can be run, else one line: what, where, what to do.
std::optional<std::string> find_fault(const GenerationRequest& request, const RequestLimits& limits);

}  // namespace nibble
