// W3C Trace Context: the header traceparent, by which tracing systems follow a request through programs.
#pragma once

#include <string_view>

namespace nibble::server {

// Accepts 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01: version, trace, parent, flags.
bool is_traceparent(std::string_view text);

}  // namespace nibble::server
