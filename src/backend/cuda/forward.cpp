#include "backend/cuda/forward.h"

namespace nibble::cuda {
namespace {

void attention(const Step& step, size_t layer, const Taps& taps) {
  norm_before_attention(step, layer);
  qkv(step, layer);
  append(step, layer);  // rotates q and k, and stores k and v in the KV cache
  attend(step, layer);  // sliding layers see only a window of positions
  if (taps.after_attend) taps.after_attend(layer);
  project(step, layer);  // adds Wo attended + bo to x
  if (taps.after_project) taps.after_project(layer, stream_after_attention(step));
}

void experts(const Step& step, size_t layer) {
  norm_before_experts(step, layer);
  route(step, layer);       // computes the logits, chooses K experts, computes their weights
  experts_up(step, layer);  // includes SwiGLU
  // experts_down() stores the experts' weighted outputs. The next reader of x, or the all-reduce, adds them
  // to x.
  experts_down(step, layer);
}

}  // namespace

void run_half_layer(const Step& step, int half, const Taps& taps) {
  const size_t layer = half / 2;
  if (half % 2 == 0) return attention(step, layer, taps);
  experts(step, layer);
  if (taps.after_layer) taps.after_layer(layer, stream_after_layer(step));
}

}  // namespace nibble::cuda
