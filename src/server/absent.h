// Well-known endpoints of other APIs that nibble lacks. The answer to any method is 501 with the reason.
#pragma once

#include <optional>
#include <string_view>

namespace nibble::server {

enum class ErrorForm { kOpenAi, kAnthropic, kOllama };

struct AbsentEndpoint {
  std::string_view path;  // the known path: the requested one, or one above it
  std::string_view reason;
  ErrorForm errors;
};

// `path` must be normalized by with_v1() (http/url.h).
std::optional<AbsentEndpoint> find_absent(std::string_view path);

}  // namespace nibble::server
