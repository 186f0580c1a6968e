// Low-rank updates: what a LoRA adapter adds to a matrix W [rows, cols], namely scale * B A with
// A [rank, cols] and B [rows, rank].
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/tensors/dtype.h"

namespace nibble {

// A matrix within a stored tensor of BF16, F16 or F32, which may be unaligned. Strides are in elements.
struct Factor {
  DType type{DType::kF32};
  const std::byte* data{nullptr};
  size_t row_stride{0}, col_stride{1};

  float at(size_t row, size_t col) const;
};
Factor transposed(const Factor& factor);

struct LowRankUpdate {
  Factor a, b;
  int rank{0};
  float scale{1};
  // Row n of B changes row first_row + n * row_step of W: gate and up are alternate rows of one matrix.
  int first_row{0}, row_step{1};
};

// Adds the update to consecutive whole rows of W, the first of which is row `first_row`. Sums in float32, in
// the order of A's rows.
void add_update(const LowRankUpdate& update, int first_row, size_t cols, std::span<float> rows);

struct ExpertUpdates {
  std::vector<std::vector<LowRankUpdate>> of_expert;   // [E]: in the order in which they are added
  std::vector<std::shared_ptr<const void>> storage{};  // keeps the factors alive
};

}  // namespace nibble
