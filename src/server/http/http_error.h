// A request that can't be answered: an HTTP status and a message. The handler writes it in the form of its API.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace nibble::server {

class HttpError : public std::runtime_error {
 public:
  template <typename... Args>
  explicit HttpError(int http_status, fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)), status(http_status) {}

  int status;
  std::string param{};  // the parameter of the request that is at fault; may be empty
  std::string code{};   // the kind of error, for programs; may be empty
  std::vector<std::pair<std::string, std::string>> header{};  // further lines of the answer's header
};

}  // namespace nibble::server
