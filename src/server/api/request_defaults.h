// Defaults for fields that a request omits.
#pragma once

#include <string>

#include "engine/generation_request.h"
#include "harmony/message.h"

namespace nibble::server {

struct RequestDefaults {
  SampleParams sample{.temperature = 1};  // temperature, top_k, top_p, min_p and the penalties
  harmony::ReasoningEffort effort{harmony::ReasoningEffort::kMedium};
  std::string instructions{};  // used for chats without instructions
};

}  // namespace nibble::server
