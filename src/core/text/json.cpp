#include "core/text/json.h"

#include <chrono>
#include <thread>

namespace nibble {
namespace {

// Time for which a failed allocation is retried, because other requests may free memory. A blocked thread is
// better than the end of the process.
constexpr std::chrono::seconds kJsonTimeout{5};

}  // namespace

void* wait_for_json_memory(size_t bytes) {
  std::chrono::steady_clock::time_point end;  // set when the first allocation fails
  for (bool is_first = true;; is_first = false) {
    try {
      return ::operator new(bytes);
    } catch (const std::bad_alloc&) {
      const auto now = std::chrono::steady_clock::now();
      if (is_first) end = now + kJsonTimeout;
      if (now >= end) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace nibble
