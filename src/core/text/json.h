// JSON of requests, answers and small files: nlohmann/json with the allocator of json_fwd.h.
#pragma once

#include "core/text/json_fwd.h"
// Must be included after json_fwd.h, which declares the allocator.
#include <nlohmann/json.hpp>

// Compares without allocating. The library's operator is noexcept but allocates, so a failed allocation would
// end the process.
namespace nlohmann {

inline bool operator==(const json& value, const char* text) noexcept {
  const auto* own = value.get_ptr<const std::string*>();
  return own && *own == text;
}
inline bool operator==(const ordered_json& value, const char* text) noexcept {
  const auto* own = value.get_ptr<const std::string*>();
  return own && *own == text;
}

}  // namespace nlohmann

namespace nibble {

static_assert(std::is_same_v<JsonArray, nlohmann::json::array_t>);
static_assert(std::is_same_v<JsonObject, nlohmann::json::object_t>);
static_assert(std::is_same_v<OrderedJsonArray, nlohmann::ordered_json::array_t>);
static_assert(std::is_same_v<OrderedJsonObject, nlohmann::ordered_json::object_t>);

}  // namespace nibble
