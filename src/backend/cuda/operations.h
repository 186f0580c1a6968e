// The operations of a step, each launched with the arguments that follow from the step's recipe. Which of them make up a layer, and in
// which order, says forward.cpp.
#pragma once

#include "backend/cuda/memory/device_weights.h"
#include "backend/cuda/memory/workspace.h"
#include "backend/cuda/recipe.h"
#include "backend/cuda/step/step_input.h"

namespace nibble::cuda {

// A rank computes with this: its share of the model (model/shares/share.h) and its KV cache.
struct Model {
  const Config& config;  // the rank's
  const DeviceWeights& weights;
  const KvStorage& kv;
  float* logits;  // [kOutputRows, V], where samples are drawn: in the memory of the first rank
};

// A step of a rank, and the stream that it is launched in.
struct Step {
  Model model;
  const Plan& plan;
  const StepRecipe& recipe;
  const Workspace& work;
  const StepShape& shape;
  Stream stream;
};
inline StepRows rows_of(const StepShape& shape) { return {shape.num_tokens, shape.num_attention_rows()}; }

// `last_drafts`: EmbedArgs.
void embed(const Step& step, const MadeDrafts& last_drafts = {});

// The operations of a layer. One that the recipe makes part of another's launch launches nothing.
void norm_before_attention(const Step& step, size_t layer);
void qkv(const Step& step, size_t layer);
void append(const Step& step, size_t layer);
void attend(const Step& step, size_t layer);
void project(const Step& step, size_t layer);
void norm_before_experts(const Step& step, size_t layer);
void route(const Step& step, size_t layer);
void experts_up(const Step& step, size_t layer);
void experts_down(const Step& step, size_t layer);

// The residual stream after a layer. Where ranks share the model, before the sum over them.
ResidualInput stream_after_layer(const Step& step);

// What half a layer leaves for the sum over ranks, where these share the model. The sum over ranks and parts is added to x and left in
// `out`. Part p of row r begins at p part_stride + r row_stride.
struct HalfOutput {
  Operation operation;  // that has left it
  const float* parts;
  int num_parts;
  size_t part_stride, row_stride;
  const float* x;     // [T, H]
  float* out;         // [T, H]
  const float* norm;  // weights of the norm that the sum leaves in work.normed as well; null: it leaves none
  int image_rows;     // of work.normed
  const float* weights;  // [T, num_parts]: a part of weight 0 is absent; null: none is
  const int*
      part_rows;  // [T]: the row of `parts` for a row of the step, -1 where there is none; null: the same row
};
HalfOutput output_of_half(const Step& step, int half);

// The logits of outputs [first, first + count), which are at most kOutputRows, and the tokens that are chosen by them.
void unembed(const Step& step, int first, int count);
void sample(const Step& step, int first, int count);
// In a step with trees, when all its tokens are chosen: moves the right drafts' keys and values to their positions.
void keep_drafts(const Step& step);

}  // namespace nibble::cuda
