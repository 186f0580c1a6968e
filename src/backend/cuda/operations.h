// Launches the operations of a step, with arguments from the step's recipe. forward.cpp calls the operations
// of a layer in order.
#pragma once

#include "backend/cuda/memory/device_adapters.h"
#include "backend/cuda/memory/device_weights.h"
#include "backend/cuda/memory/workspace.h"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/ranks/args.h"
#include "backend/cuda/recipe.h"
#include "backend/cuda/step/step_input.h"

namespace nibble::cuda {

// The data of a rank: its share of the model (model/shares/share.h) and its KV cache.
struct Model {
  const Config& config;  // config of the rank's share
  const DeviceWeights& weights;
  const KvStorage& kv;
  float* logits;  // [rows of a launch, V]; with peer access, in the first rank's memory
  const DeviceAdapters* adapters{nullptr};  // read only if StepShape::have_adapters
};

// One rank's step and the stream in which it is launched.
struct Step {
  Model model;
  const Plan& plan;
  const StepRecipe& recipe;
  const Workspace& work;
  const StepShape& shape;
  Stream stream;
};
inline StepRows rows_of(const StepShape& shape) { return {shape.num_tokens, shape.num_attention_rows()}; }

void embed(const Step& step, const MadeDrafts& last_drafts = {});

// Operations of a layer. A function launches nothing if, by the recipe, another launch includes its
// operation.
void norm_before_attention(const Step& step, size_t layer);
void qkv(const Step& step, size_t layer);
void append(const Step& step, size_t layer);
void attend(const Step& step, size_t layer);
void project(const Step& step, size_t layer);
void norm_before_experts(const Step& step, size_t layer);
void route(const Step& step, size_t layer);
void experts_up(const Step& step, size_t layer);
void experts_down(const Step& step, size_t layer);

// Returns where attend() stores its output.
Activations attended_of(const Step& step);
// Returns the residual stream after attention. If ranks share the model, the stream is complete only after
// the all-reduce.
ResidualInput stream_after_attention(const Step& step);
// Returns the residual stream after a layer. Call it only if one rank has the whole model.
ResidualInput stream_after_layer(const Step& step);

// Returns this rank's result of half a layer, for the sum over ranks. If the sum computes a norm, the norm is
// stored in work.normed.
HalfOutput output_of_half(const Step& step, int half);

// unembed() computes the logits of `count` outputs (at most kOutputRows), from output `first` on. sample()
// chooses their tokens.
void unembed(const Step& step, int first, int count);
void sample(const Step& step, int first, int count);
// Moves the keys and values of accepted drafts to the cache slots of their positions. Call it after enqueuing
// the sampling of all outputs of the step.
void keep_drafts(const Step& step);

}  // namespace nibble::cuda
