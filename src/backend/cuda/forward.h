// The forward pass: the launches of a step. Beside reference/forward.cpp, in the same order and with the same names.
#pragma once

#include <functional>

#include "backend/cuda/memory/device_weights.h"
#include "backend/cuda/memory/workspace.h"
#include "backend/cuda/plan.h"
#include "backend/cuda/step/step_input.h"

namespace nibble::cuda {

// A rank computes with this: its share of the model (model/shares/share.h), its KV cache, and whether others have shares too.
struct Model {
  const Config& config;  // the rank's
  const DeviceWeights& weights;
  const KvStorage& kv;
  bool
      is_shared;  // with other ranks: behind each half of a layer, and behind the logits, something is to be done (ranks/sum.h)
  bool
      has_own_sums;  // with other ranks that write into each other's memory: their sums can leave norms, those that NCCL moves do not
  bool has_own_sequences;  // attention is of the rank's own rows of a step (StepShape::num_own_rows)
  float* logits;           // [kOutputRows, V], where samples are drawn: in the memory of the first rank
};

// Launches what reads the residual stream behind a layer; the next layer may change it.
using Tap = std::function<void(size_t layer, const ResidualInput& x)>;

// Everything up to the last layer, for all rows of a step: run_embed(), then the halves of all layers in order, attention's and the experts'.
// `tap` may be empty; `last_drafts` is for embed (EmbedArgs).
void run_embed(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
               Stream stream, const MadeDrafts& last_drafts = {});
void run_half_layer(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                    int half, Stream stream, const Tap& tap);
inline int num_halves(const Model& model) { return 2 * static_cast<int>(model.weights.layers.size()); }

// The output that half a layer leaves for the sum over ranks, where the model is shared: the sum over ranks and parts is to be added to x, and to be left in `out`. Part p of row r
// begins at p part_stride + r row_stride. Where there are weights, [T, num_parts], a part of weight 0 is not there; where there are part_rows,
// [T], they say which row of `parts` has those of a row of the step, and -1 where none has.
struct HalfOutput {
  Operation operation;  // that has left it
  const float* parts;
  int num_parts;
  size_t part_stride, row_stride;
  const float* x;     // [T, H]
  float* out;         // [T, H]
  const float* norm;  // weights of the norm to leave in work.normed as well; null: it is computed elsewhere
  int image_rows;     // of work.normed
  const float* weights;
  const int* part_rows;
};
HalfOutput output_of_half(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                          int half);

// The logits of outputs [first, first + count), which are at most kOutputRows, and the tokens that are chosen by them.
void run_unembed(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                 int first, int count, Stream stream);
void run_sample(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                int first, int count, Stream stream);
// In a step with trees, when all its tokens are chosen: has the right drafts' keys and values at their positions.
void run_keep_drafts(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                     Stream stream);

}  // namespace nibble::cuda
