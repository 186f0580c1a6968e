// The value of `encrypted_content` in a reasoning item: the item's text in a form that clients do not read.
// Clients that keep no responses on the server, such as Codex, send back this value but not the text.
// It is neither secret nor signed: the same answer has the text in clear, and requests may contain any
// reasoning.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::server {

std::string seal_reasoning(std::string_view text);  // base64

// Returns the text that was given to seal_reasoning(); nullopt if `sealed` comes from another server.
std::optional<std::string> open_reasoning(std::string_view sealed);

}  // namespace nibble::server
