// Well-known endpoints of other APIs that nibble lacks. The answer to any method is 501 with the reason.
#pragma once

#include <string_view>

namespace nibble::server {

enum class ErrorForm { kOpenAi, kAnthropic, kOllama };

struct AbsentEndpoint {
  std::string_view path;  // the row covers this path and every path below it
  std::string_view reason;
  ErrorForm errors{ErrorForm::kOpenAi};
};

// Returns the row that covers `path`, or null. `path` must be normalized by with_v1() (http/url.h).
const AbsentEndpoint* find_absent(std::string_view path);

}  // namespace nibble::server
