#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace nibble::test {

// Returns when condition() is true. Throws after a minute, so that the test fails instead of hanging. `file`
// and `line`: place of the call.
template <typename Condition>
void wait_until(const Condition& condition, const char* file = __builtin_FILE(),
                int line = __builtin_LINE()) {
  const auto latest = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > latest)
      throw std::runtime_error(std::string(file) + ":" + std::to_string(line) +
                               ": the condition is not true after a minute");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace nibble::test
