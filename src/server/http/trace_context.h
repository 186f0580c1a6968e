// W3C Trace Context: by the header traceparent tracing systems follow a request through several programs.
#pragma once

#include <string_view>

namespace nibble::server {

// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01: version, trace, parent, flags, ... (later
// versions).
bool is_traceparent(std::string_view text);

}  // namespace nibble::server
