// Dense matrix products of many tokens by mma.sync: qkv, project, router logits and unembed.
#include "backend/cuda/dense/args.h"
#include "backend/cuda/dense/items.cuh"
#include "backend/cuda/pipeline/bf16_columns.cuh"
#include "backend/cuda/route/args.h"

namespace nibble::cuda {

void qkv_many(const LaunchContext& gpu, const QkvArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_qkv<PromptShape<layout()>>(gpu, args); });
}
void project_many(const LaunchContext& gpu, const ProjectArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_project<PromptShape<layout()>>(gpu, args); });
}
void unembed_many(const LaunchContext& gpu, const UnembedArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_unembed<PromptShape<layout()>>(gpu, args); });
}
void logits_many(const LaunchContext& gpu, const RouteArgs& args) {
  launch_logits<PromptShape<Layout::kBf16>>(gpu, args);
}

size_t many_shared_bytes(Layout layout) {
  size_t bytes = 0;
  with_layout(layout, [&](auto l) { bytes = PromptShape<l()>::kBytes; });
  return bytes;
}

void prepare_prompt_dense() {
  for_each_layout([](auto layout) {
    using Shape = PromptShape<layout()>;
    prepare_dense<Shape>();
    allow_shared_bytes(unembed_many_kernel<Shape>, Shape::kBytes);
  });
  allow_shared_bytes(logits_many_kernel<PromptShape<Layout::kBf16>>, PromptShape<Layout::kBf16>::kBytes);
}

}  // namespace nibble::cuda
