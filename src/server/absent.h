// Endpoints of the APIs that clients know, which nibble does not have and says why: they are answered with 501, by any method.
#pragma once

#include <string_view>

namespace nibble::server {

enum class ErrorForm { kOpenAi, kAnthropic, kOllama };

struct AbsentEndpoint {
  std::string_view path;  // and every path below it
  std::string_view reason;
  ErrorForm errors{ErrorForm::kOpenAi};
};

// Null if the path is none of these. `path` is one of url.h: with_v1.
const AbsentEndpoint* find_absent(std::string_view path);

}  // namespace nibble::server
