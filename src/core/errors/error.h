// InputError: a file, flag or request is wrong. The message is one line: what, where, what to do. Usually
// caught only by main and by the server's request handler.
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
