// Retries f() until it throws no std::bad_alloc. For small allocations that must succeed, such as those of an
// answer's last event.
#pragma once

#include <chrono>
#include <new>
#include <thread>

namespace nibble {

template <typename F>
auto with_memory(const F& f) {
  for (;;) {
    try {
      return f();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

}  // namespace nibble
