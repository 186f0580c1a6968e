#include "engine/event.h"

#include <iterator>

namespace nibble {

std::string_view name(FinishReason reason) {
  // In the order of FinishReason.
  constexpr std::string_view kNames[]{"stop token", "stop string", "max tokens", "context full", "cancelled"};
  static_assert(std::size(kNames) == static_cast<size_t>(FinishReason::kCancelled) + 1);
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace nibble
