#include "backend/cuda/verify/same_bits.h"

#include <algorithm>

#include "core/errors/check.h"

namespace nibble::cuda::verify {

const KernelRow* row_by_mma(const KernelRow& row) {
  if (row.engine != MatrixEngine::kWgmma) return nullptr;
  const auto rows = kernel_rows();
  const auto found = std::ranges::find_if(rows, [&](const KernelRow& other) {
    return other.operation == row.operation && other.weights == row.weights && other.to_rows == kAnyRows &&
           other.engine == MatrixEngine::kMma;
  });
  NIBBLE_CHECK(found != rows.end(), "{} has no row by mma.sync", name(row));
  return &*found;
}

}  // namespace nibble::cuda::verify
