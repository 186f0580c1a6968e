// Parses JSON from an untrusted file. Checks UTF-8, numbers and depth before any value is used.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace nibble {

// The result is valid while `parser` exists. `max_depth` limits the nesting of objects and arrays. Throws
// ContainerError: kInvalidUtf8, kTooDeep, kBadNumber (more than 64 bits), kInvalidJson.
simdjson::dom::element parse_untrusted_json(simdjson::dom::parser& parser, std::string_view text,
                                            size_t max_depth, const std::filesystem::path& path);

}  // namespace nibble
