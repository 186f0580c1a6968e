// Returns an optional value as JSON; null if it is absent.
#pragma once

#include <optional>

#include "core/text/json.h"

namespace nibble::cli {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace nibble::cli
