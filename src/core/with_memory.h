// Calls f() again until there is memory for it. For small things that must not be lost: an event that ends a request, a cancellation.
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
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace nibble
