#include "backend/cuda/forward.h"

namespace nibble::cuda {
namespace {

void attention(const Step& step, size_t layer) {
  norm_before_attention(step, layer);
  qkv(step, layer);
  append(step, layer);   // rotates q and k, appends k and v to the cache
  attend(step, layer);   // sliding layers: only the last 128 positions
  project(step, layer);  // x += Wo attended + bo
}

void experts(const Step& step, size_t layer) {
  norm_before_experts(step, layer);
  route(step, layer);       // logits, top K, softmax
  experts_up(step, layer);  // SwiGLU
  // Only computes the experts' weighted outputs. The next reader of x, or the all-reduce, adds them to x.
  experts_down(step, layer);
}

}  // namespace

void run_half_layer(const Step& step, int half, const Tap& tap) {
  const auto layer = static_cast<size_t>(half / 2);
  if (half % 2 == 0) return attention(step, layer);
  experts(step, layer);
  if (tap) tap(layer, stream_after_layer(step));
}

}  // namespace nibble::cuda
