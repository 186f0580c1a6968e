#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::server {

std::string url_decoded(std::string_view text);  // decodes "%2F" to "/"; invalid codes stay as they are

// Returns the decoded value of parameter `name` in a query such as "a=1&b=2".
std::optional<std::string> query_value(std::string_view query, std::string_view name);

// Returns the part of `path` that matches "{id}" in `route`; it may contain "/", as model names do. Returns
// nullopt without a match. A route without "{id}" must equal the path; the result is then empty.
std::optional<std::string_view> match_path(std::string_view route, std::string_view path);

// Drops repeated and trailing slashes. Adds "/v1" where clients may omit it: "/models" becomes "/v1/models".
std::string with_v1(std::string_view path);

}  // namespace nibble::server
