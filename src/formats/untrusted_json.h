// JSON out of a file that nobody vouches for: its UTF-8, numbers and depth are checked before anything is looked at.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace nibble {

// The root of `text`, which lives as long as `parser`. `max_depth` counts objects and arrays inside each other. Throws
// ContainerError: kInvalidUtf8, kTooDeep, kBadNumber (no 64 bits hold it), kInvalidJson.
simdjson::dom::element parse_untrusted_json(simdjson::dom::parser& parser, std::string_view text,
                                            size_t max_depth, const std::filesystem::path& path);

}  // namespace nibble
