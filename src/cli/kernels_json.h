// Which kernel runs what, for programs to read.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "backend/backend.h"

namespace nibble::cli {

inline nlohmann::ordered_json kernels_json(std::span<const KernelChoice> kernels) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const KernelChoice& row : kernels)
    rows.push_back({{"operation", row.operation},
                    {"weights", row.weights},
                    {"kernel", row.kernel},
                    {"reason", row.reason}});
  return rows;
}

}  // namespace nibble::cli
