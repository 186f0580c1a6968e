#include "backend/cpu/experts/packed_experts.h"

#include <cstring>
#include <utility>

#include "backend/cpu/isa/kernels.h"
#include "core/check.h"

namespace nibble::cpu {
namespace {

constexpr size_t kBlockCodes{kBlock / 2};  // bytes

// Nibble i of 4 to nibble 2i.
uint32_t spread(uint32_t nibbles) {
  nibbles = (nibbles | nibbles << 8) & 0x00FF00FF;
  return (nibbles | nibbles << 4) & 0x0F0F0F0F;
}

// One strip of `matrix`.
void pack_strip(const Matrix& matrix, ptrdiff_t first_row, int strip_rows, uint8_t* codes, uint8_t* scales) {
  const ptrdiff_t num_blocks = matrix.cols / kBlock;
  for (int r = 0; r < strip_rows; ++r) {
    const uint8_t* from =
        static_cast<const uint8_t*>(matrix.data) + (first_row + r) * num_blocks * ptrdiff_t{kBlockCodes};
    const uint8_t* row_scales = matrix.scales + (first_row + r) * num_blocks;
    for (ptrdiff_t block = 0; block < num_blocks; ++block) {
      scales[block * strip_rows + r] = row_scales[block];
      for (int v = 0; v < 4; ++v, from += 4) {
        uint32_t word;  // 8 columns, the first in the lowest nibble
        std::memcpy(&word, from, sizeof word);
        word = spread(word & 0xFFFF) | spread(word >> 16) << 4;
        std::memcpy(codes + ((block * 4 + v) * strip_rows + r) * 4, &word, sizeof word);
      }
    }
  }
}

}  // namespace

size_t PackedExperts::num_blocks() const {
  return static_cast<size_t>(rows) * static_cast<size_t>(cols) / kBlock;
}

const uint8_t* PackedExperts::codes(int expert) const {
  return storage.as<uint8_t>() + static_cast<size_t>(expert) * num_blocks() * kBlockCodes;
}

const uint8_t* PackedExperts::scales(int expert) const {
  return codes(num_experts) + static_cast<size_t>(expert) * num_blocks();
}

PackedExperts pack(const ExpertMatrices& experts, int num_experts, int strip_rows, ThreadPool& pool) {
  const Matrix& first = experts.first;
  NIBBLE_CHECK(first.format == Format::kMxfp4, "experts of {}", name(first.format));
  NIBBLE_CHECK(first.rows % strip_rows == 0, "{} rows, {} in a strip", first.rows, strip_rows);
  PackedExperts packed{first.rows, first.cols, {}, num_experts};
  packed.storage = Buffer(packed.num_blocks() * (kBlockCodes + 1) * static_cast<size_t>(num_experts));
  const ptrdiff_t strips = first.rows / strip_rows,
                  strip_blocks = ptrdiff_t{1} * strip_rows * first.cols / kBlock;
  pool.for_each(num_experts * strips, [&](ptrdiff_t item, int) {
    const auto expert = static_cast<int>(item / strips);
    const ptrdiff_t strip = item % strips;
    pack_strip(experts.matrix(expert), strip * strip_rows, strip_rows,
               const_cast<uint8_t*>(packed.codes(expert)) + strip * strip_blocks * ptrdiff_t{kBlockCodes},
               const_cast<uint8_t*>(packed.scales(expert)) + strip * strip_blocks);
  });
  return packed;
}

PackedModel pack_experts(std::shared_ptr<const Weights> weights, int strip_rows, ThreadPool& pool) {
  Weights kept = *weights;
  weights.reset();
  PackedModel model;
  const auto take = [&](ExpertMatrices& experts) {
    PackedExperts packed = pack(experts, kept.config.num_experts, strip_rows, pool);
    experts.first.data = experts.first.scales = nullptr;
    return packed;
  };
  for (LayerWeights& layer : kept.layers) {
    model.layers.push_back({take(layer.gate_up), take(layer.down)});
    layer.experts_storage.reset();
  }
  model.weights = std::make_shared<const Weights>(std::move(kept));
  return model;
}

}  // namespace nibble::cpu
