#pragma once

#include <fmt/format.h>

#include <span>
#include <string>

#include "backend/backend.h"
#include "core/json.h"

namespace nibble::cli {

// The numbers of tokens of a step for which the kernel runs: "1", "2-64", "65-" or "any".
inline std::string rows_text(const KernelChoice& row) {
  if (row.from_rows == row.to_rows) return fmt::to_string(row.from_rows);
  if (row.to_rows < kAnyRows) return fmt::format("{}-{}", row.from_rows, row.to_rows);
  return row.from_rows > 1 ? fmt::format("{}-", row.from_rows) : "any";
}

inline nlohmann::ordered_json kernels_json(std::span<const KernelChoice> kernels) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const KernelChoice& row : kernels)
    rows.push_back({{"operation", name(row.operation)},
                    {"weights", row.weights},
                    {"activations", row.activations},
                    {"rows", rows_text(row)},
                    {"kernel", row.kernel},
                    {"reason", row.reason}});
  return rows;
}

}  // namespace nibble::cli
