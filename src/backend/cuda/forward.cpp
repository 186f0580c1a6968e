#include "backend/cuda/forward.h"

namespace nibble::cuda {
namespace {

void attention(const Step& step, size_t layer) {
  norm_before_attention(step, layer);
  qkv(step, layer);
  append(step, layer);   // rotate, append
  attend(step, layer);   // window 128 on sliding layers
  project(step, layer);  // x += Wo attended + bo
}

void experts(const Step& step, size_t layer) {
  norm_before_experts(step, layer);
  route(step, layer);       // gate, top K, softmax
  experts_up(step, layer);  // SwiGLU
  // x += weighted sum over routed experts, added by the next reader of x or by the all-reduce
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
