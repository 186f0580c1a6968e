// Returns an optional value as JSON; null if it is absent.
#pragma once

#include <optional>

#include "core/text/json.h"

namespace nibble::cli {

template <typename T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

}  // namespace nibble::cli
