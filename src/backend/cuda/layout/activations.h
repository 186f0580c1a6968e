// Activations that one kernel writes and another multiplies, in one of three layouts. C++17, for device code.
#pragma once

#include <cuda_bf16.h>

#include <type_traits>

#include "backend/cuda/layout/block_format.h"

namespace nibble::cuda {

enum class ActivationLayout {
  kRows,   // row by row, in bfloat16
  kImage,  // an image of bfloat16 (layout/image.h), read by kernels that multiply by wgmma
  kBlocks  // row by row, in a format of block-scaled products (block_rows.h)
};

struct Activations {
  ActivationLayout layout{ActivationLayout::kRows};
  int image_rows{0};  // number of rows of the image, padding included; 0 in the other layouts
  union {
    __nv_bfloat16* data;  // kRows and kImage: the activations; null: none
    BlockRows blocks;
  };

  constexpr Activations() : data(nullptr) {}
  constexpr Activations(__nv_bfloat16* rows) : data(rows) {}
  explicit constexpr Activations(const BlockRows& rows) : layout(ActivationLayout::kBlocks), blocks(rows) {}
  static constexpr Activations image(__nv_bfloat16* data, int num_rows) {
    Activations image(data);
    image.layout = ActivationLayout::kImage;
    image.image_rows = num_rows;
    return image;
  }
};
static_assert(std::is_trivially_copyable_v<Activations>);

}  // namespace nibble::cuda
