// The Content-Security-Policy of the page's files, and the MCP servers that the operator lets the page call.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace nibble::server {

// Throws InputError unless `origin` is like "https://tools.example" or "http://127.0.0.1:3000": a scheme, a
// name or IPv4 address, perhaps a port. Anything else could change the policy, or would match nothing.
void check_mcp_origin(std::string_view origin);

// Returns the policy of a file, or of an address that shows the file. Only the chat may connect to
// `mcp_origins`, which must have passed check_mcp_origin().
std::string content_policy(std::string_view file, std::span<const std::string> mcp_origins);

}  // namespace nibble::server
