#include "core/json.h"

#include <chrono>
#include <thread>

namespace nibble {
namespace {

// Long enough for other requests to end and give memory back. A thread that waits so long serves no one, which is better than an end.
constexpr std::chrono::seconds kJsonPatience{5};

}  // namespace

void* wait_for_json_memory(size_t bytes) {
  std::chrono::steady_clock::time_point end;  // only a failure looks at the clock
  for (bool is_first = true;; is_first = false) {
    try {
      return ::operator new(bytes);
    } catch (const std::bad_alloc&) {
      const auto now = std::chrono::steady_clock::now();
      if (is_first) end = now + kJsonPatience;
      if (now >= end) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace nibble
