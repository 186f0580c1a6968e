// Merges LoRA adapters into a model's weights.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/console/progress.h"
#include "core/threads/thread_pool.h"
#include "model/adapter/adapter.h"
#include "model/weights.h"

namespace nibble {

struct ScaledAdapter {
  std::shared_ptr<const Adapter> adapter;
  float scale{1};  // multiplies the adapter's own scale
};

// Returns weights in which the experts that adapters change are StoredExperts with these updates, in the
// order of the adapters. convert_experts() adds the updates in float32 before it rounds to the format of
// decide_experts(). Returns `weights` itself if the adapters change no experts.
std::shared_ptr<const Weights> with_expert_updates(std::shared_ptr<const Weights> weights,
                                                   std::span<const ScaledAdapter> adapters);

struct MergedWeights {
  std::shared_ptr<const Weights> weights;
  size_t bytes{0};  // memory of the merged matrices
};
// Adds the adapters, in their order, to the dense matrices in float32. A matrix in FP8 or F32 keeps its
// format; any other becomes BF16, rounded to nearest even. Releases the pages of the files of these matrices.
// Throws InputError if a matrix would get values that are not finite.
MergedWeights merge_into_dense(const Weights& weights, std::span<const ScaledAdapter> adapters,
                               ThreadPool& pool, const ReportProgress& report = {});

// Gives the dense matrices that merge_into_dense() would merge the same formats, with zeros as values, which
// take no memory. Reads no weights. For commands that do not run the model.
std::shared_ptr<const Weights> describe_merged(std::shared_ptr<const Weights> weights,
                                               std::span<const ScaledAdapter> adapters);

}  // namespace nibble
