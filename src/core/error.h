// What the outside world can do wrong: a file, a flag, a request. One line that says what, where, and what to do.
// Thrown where it is found; only main and the request handler catch it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>

namespace nibble {

class InputError : public std::runtime_error {
 public:
  template <typename... Args>
  explicit InputError(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace nibble
