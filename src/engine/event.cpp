#include "engine/event.h"

#include "core/errors/check.h"

namespace nibble {

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken:
      return "stop token";
    case FinishReason::kStopString:
      return "stop string";
    case FinishReason::kMaxTokens:
      return "max tokens";
    case FinishReason::kContextFull:
      return "context full";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  NIBBLE_CHECK(false, "finish reason {}", static_cast<int>(reason));
}

}  // namespace nibble
