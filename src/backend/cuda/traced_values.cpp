#include "backend/cuda/traced_values.h"

#include <algorithm>

#include "backend/cuda/chip/wait.h"
#include "core/errors/check.h"
#include "core/numbers/bf16.h"

namespace nibble::cuda {
namespace {

template <typename T>
std::vector<T> downloaded(Stream stream, const void* from, size_t count) {
  std::vector<T> values(count);
  check(cudaMemcpyAsync(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost, stream), "tracing");
  wait_for_stream(stream, "tracing");
  return values;
}

}  // namespace

std::vector<float> attended_values(const Step& step, int num_rows) {
  const Activations attended = attended_of(step);
  NIBBLE_CHECK(attended.layout != ActivationLayout::kBlocks, "attention's output has no blocks");
  const int columns = step.model.config.num_heads * step.model.config.head_dim;
  const int num_tiles = padded_cols(columns) / kTileCols;
  const size_t room = element_of(std::max(num_rows, attended.image_rows) - 1, num_tiles - 1, num_tiles,
                                 attended.image_rows, 0);
  const std::vector<Bf16> stored = downloaded<Bf16>(step.stream, attended.data, room + kTileCols);
  std::vector<float> values;
  for (int row = 0; row < num_rows; ++row)
    for (int column = 0; column < columns; ++column)
      values.push_back(to_float(
          stored[element_of(row, column / kTileCols, num_tiles, attended.image_rows, column % kTileCols)]));
  return values;
}

// Adds the terms in the same order as the kernels that read the stream, so that the sums have the same bits.
std::vector<float> residual_values(const Step& step, const ResidualInput& x, int num_rows) {
  const size_t hidden = x.hidden, num_experts = x.num_experts, count = num_rows * hidden;
  std::vector<float> values = downloaded<float>(step.stream, x.x, count);
  if (x.x_rest) {
    const std::vector<float> rest = downloaded<float>(step.stream, x.x_rest, count);
    for (size_t i = 0; i < count; ++i) values[i] += rest[i];
  }
  if (!x.experts) return values;
  const std::vector<float> experts = downloaded<float>(step.stream, x.experts, count * num_experts);
  for (size_t i = 0; i < count; ++i)
    for (size_t k = 0; k < num_experts; ++k)
      values[i] += experts[(i / hidden * num_experts + k) * hidden + i % hidden];
  return values;
}

}  // namespace nibble::cuda
