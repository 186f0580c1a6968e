// Checks whether a request can be run, before it is queued, so that no later code fails on a value.
#pragma once

#include <optional>
#include <string>

#include "engine/generation_request.h"
#include "engine/scheduler.h"

namespace nibble {

struct RequestLimits {
  int vocab{0};
  int max_context{0};  // prompt and answer together
  SchedulerOptions scheduler{};
};

// Returns the limit on the answer's tokens: max_tokens, but at most what is left of the context. Without
// max_tokens, also at most what the KV cache holds, so that the default never fails. 0 or less: no space for
// an answer.
int max_output_tokens(const GenerationRequest& request, const RequestLimits& limits);

// Returns nothing if the request can be run, otherwise one line: what, where, what to do.
std::optional<std::string> find_fault(const GenerationRequest& request, const RequestLimits& limits);

}  // namespace nibble
