// Checks whether a request can be run, before it is queued, so that no later code fails on a value.
#pragma once

#include <optional>
#include <string>

#include "engine/engine_options.h"
#include "engine/generation_request.h"
#include "engine/scheduler.h"
#include "model/config.h"

namespace nibble {

struct RequestLimits {
  int vocab{0};
  int max_context{0};  // prompt and answer together
  SchedulerOptions scheduler{};
};

// Throws InputError if the options let no request run.
RequestLimits limits_of(const Config& config, const EngineOptions& options);

// Returns the limit of the answer's tokens: max_tokens or, if less, what is left of the context. Without
// max_tokens the KV cache limits the answer too, so that the default never fails. 0 or less: no room is left.
int max_output_tokens(const GenerationRequest& request, const RequestLimits& limits);

// Returns nothing if the request can be run, otherwise one line that says what is wrong, where, and what
// to do.
std::optional<std::string> find_fault(const GenerationRequest& request, const RequestLimits& limits);

}  // namespace nibble
