#include "backend/cuda/verify/same_bits.h"

#include <algorithm>

#include "core/check.h"

namespace nibble::cuda::verify {

const KernelRow* row_by_mma(const KernelRow& row) {
  if (!row.pass.takes_image) return nullptr;
  const auto rows = kernel_rows();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const KernelRow& other) {
    return other.operation == row.operation && other.weights == row.weights && other.pass.takes_norm &&
           !other.pass.leaves_parts && !other.pass.takes_image && !block_format_of(other);
  });
  NIBBLE_CHECK(found != rows.end(), "{} has no row by mma.sync", name(row));
  return &*found;
}

}  // namespace nibble::cuda::verify
