// Values of the server for what a request leaves out. A request that has the field, or instructions of its own, gets those instead.
#pragma once

#include <string>

#include "engine/generation_request.h"
#include "harmony/message.h"

namespace nibble::server {

struct RequestDefaults {
  SampleParams sample{.temperature = 1};  // temperature, top_k, top_p, min_p and the penalties
  harmony::ReasoningEffort effort{harmony::ReasoningEffort::kMedium};
  std::string instructions{};  // of a chat without any
};

}  // namespace nibble::server
