// A model whose dense matrices are Q8_0 blocks, as in GGUF files.
#pragma once

#include <memory>
#include <vector>

#include "formats/ggml_blocks.h"
#include "model/weights.h"
#include "reference/weight_row.h"

namespace nibble::cpu {

// Returns the weights with their dense matrices rounded to Q8_0 blocks.
inline std::shared_ptr<const Weights> with_q8_0_blocks(const std::shared_ptr<const Weights>& weights) {
  struct Storage {
    std::shared_ptr<const Weights> original;
    std::vector<std::vector<std::byte>> blocks;
  };
  const auto storage = std::make_shared<Storage>(Storage{weights, {}});
  Weights changed = *weights;
  const auto quantise = [&](Matrix& matrix) {
    std::vector<float> values(size_t{1} * matrix.rows * matrix.cols);
    for (int r = 0; r < matrix.rows; ++r)
      reference::decode_row(matrix, r, &values[size_t{1} * r * matrix.cols]);
    std::vector<std::byte>& blocks = storage->blocks.emplace_back(values.size() / 32 * 34);
    quantise_q8_0(values, blocks);
    matrix.stored = Blocks{.rows = blocks.data()};
  };
  quantise(changed.embedding);
  quantise(changed.unembedding);
  for (LayerWeights& layer : changed.layers)
    for (Matrix* matrix : {&layer.q, &layer.k, &layer.v, &layer.o}) quantise(*matrix);
  changed.files.clear();  // the dense matrices are in allocated memory now, not in mapped files
  changed.storage = storage;
  return std::make_shared<const Weights>(std::move(changed));
}

}  // namespace nibble::cpu
