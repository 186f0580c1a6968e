// Parts of the target of a request.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::server {

// "%2F" as "/"; what is no such code stays as it is.
std::string url_decoded(std::string_view text);

// The value of a parameter in "a=1&b=2", decoded.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

// Finds what stands for "{id}" in the path of a route; it may have a "/", as names of models do. Nothing if the path is another's. Without
// "{id}" in the route both must be equal, and what stands for it is empty.
std::optional<std::string_view> match_path(std::string_view route, std::string_view path);

// The path as it is in the table of routes: without doubled or trailing slashes; those of OpenAI's API are also served without their "/v1".
std::string with_v1(std::string_view path);

}  // namespace nibble::server
