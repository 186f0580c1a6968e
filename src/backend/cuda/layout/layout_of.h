// The device layout of weights of a given format.
#pragma once

#include "backend/cuda/layout/strips.h"
#include "model/weights.h"

namespace nibble::cuda {

constexpr Layout layout_of(Format format) {
  return format == Format::kMxfp4 ? Layout::kMxfp4 : format == Format::kE4m3 ? Layout::kE4m3 : Layout::kBf16;
}

}  // namespace nibble::cuda
