// An HTTP status and OpenAI's error object: the client's fault, or something the server can't do now.
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

  // The error for a request that a reader refused. Its message begins with a place such as "request.messages[2].role"; the
  // part behind "request." becomes the parameter's name.
  static ApiError of(const InputError& error);

  int status;
  std::string param{};  // if empty, null in the answer
  std::string code{};   // likewise
};

// "invalid_request_error" for 400, and so on.
std::string_view error_type(int status);

// {"error": {"message", "type", "param", "code"}}
harmony::Json error_json(const ApiError& error);

}  // namespace nibble::server
