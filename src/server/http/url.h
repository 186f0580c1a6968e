#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::server {

// "%2F" -> "/"; invalid codes stay.
std::string url_decoded(std::string_view text);

// The decoded value of a parameter in "a=1&b=2".
std::optional<std::string> query_value(std::string_view query, std::string_view name);

// The part of `path` that stands for "{id}" in `route`, perhaps with "/", as in model names; empty for a
// route without "{id}", which must equal the path. nullopt without a match.
std::optional<std::string_view> match_path(std::string_view route, std::string_view path);

// Drops repeated and trailing slashes, and adds "/v1" where clients may omit it: "/v1/models" for "/models".
std::string with_v1(std::string_view path);

}  // namespace nibble::server
