// A request that can't be answered. The handler puts the error into the format of the request's API.
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
  std::string param{};  // the faulty parameter of the request; may be empty
  std::string code{};   // machine-readable kind of error; may be empty
  std::vector<std::pair<std::string, std::string>> header{};  // extra lines of the answer's header
};

}  // namespace nibble::server
