#include "backend/cuda/memory/dense_formats.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "core/errors/error.h"

namespace nibble::cuda {
namespace {

bool is_fp8(const Matrix* matrix) { return matrix->format() == Format::kE4m3; }

// Returns the format of the dense matrices that the option --fp8-layers calls `group`: qkv, o or lm_head.
Format format_of(std::string_view group, const std::vector<const Matrix*>& matrices, Format requested,
                 std::string_view source) {
  if (std::ranges::none_of(matrices, is_fp8)) return requested;
  if (requested == Format::kMxfp4)
    throw InputError(
        "{}: {} is FP8, and the CUDA backend does not convert FP8 to MXFP4: leave {} out of --mxfp4-layers, "
        "or try --backend cpu",
        source, group, group);
  if (requested == Format::kBf16 && !std::ranges::all_of(matrices, is_fp8))
    throw InputError(
        "{}: {} is FP8 in some matrices and BF16 in others, the CUDA backend needs one format: --fp8-layers "
        "{} converts the others",
        source, group, group);
  return Format::kE4m3;
}

}  // namespace

DenseFormats dense_formats(const Weights& weights, const DenseFormats& requested) {
  std::vector<const Matrix*> qkv, o;
  for (const LayerWeights& layer : weights.layers) {
    qkv.insert(qkv.end(), {&layer.q, &layer.k, &layer.v});
    o.push_back(&layer.o);
  }
  return {format_of("qkv", qkv, requested.qkv, weights.source),
          format_of("o", o, requested.attention_output, weights.source),
          format_of("lm_head", {&weights.unembedding}, requested.unembedding, weights.source)};
}

}  // namespace nibble::cuda
