#pragma once

#include "backend/cuda/layout/strips.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble::cuda {

constexpr Layout layout_of(Format format) {
  return format == Format::kMxfp4 ? Layout::kMxfp4 : format == Format::kE4m3 ? Layout::kE4m3 : Layout::kBf16;
}

inline Strips router_strips(const Config& config) {
  return make_strips(Layout::kBf16, config.num_experts, config.hidden, kRouterSegmentTiles);
}

}  // namespace nibble::cuda
