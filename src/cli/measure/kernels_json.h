#pragma once

#include <span>

#include "backend/backend.h"
#include "core/text/json.h"
#include "setup/backend/kernel_log.h"

namespace nibble::cli {

inline Json kernels_json(std::span<const KernelChoice> kernels) {
  Json rows = Json::array();
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
