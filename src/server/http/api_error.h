// What an HTTP client did wrong, or what the server can't do for it now: a status and OpenAI's error object.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "core/error.h"
#include "harmony/json_text.h"

namespace nibble::server {

class ApiError : public std::runtime_error {
 public:
  template <typename... Args>
  explicit ApiError(int http_status, fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)), status(http_status) {}

  // What a reader of requests did not like. Its places begin with "request." as in "request.messages[2].role": the rest
  // is the parameter's name.
  static ApiError of(const InputError& error);

  int status;
  std::string param{};  // empty: null in the answer
  std::string code{};   // the same
};

// "invalid_request_error" for 400, and so on.
std::string_view error_type(int status);

// {"error": {"message", "type", "param", "code"}}
harmony::Json error_json(const ApiError& error);

}  // namespace nibble::server
