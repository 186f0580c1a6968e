// NIBBLE_CHECK(condition, format, values...) prints the values and aborts if the condition is false. A
// failure is a bug in nibble; bad input is an InputError (core/errors/error.h). Values are formatted only on
// failure, so hot paths can afford checks.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace nibble {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view values);

}  // namespace nibble

#define NIBBLE_CHECK(condition, ...)                                                                 \
  do {                                                                                               \
    if (!(condition)) [[unlikely]]                                                                   \
      ::nibble::check_failed(__FILE__, __LINE__, #condition, ::nibble::detail::values(__VA_ARGS__)); \
  } while (false)

namespace nibble::detail {
inline std::string values() { return {}; }
template <typename... Args>
std::string values(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}
}  // namespace nibble::detail
