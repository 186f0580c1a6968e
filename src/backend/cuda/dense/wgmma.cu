// Dense matrix products of many tokens by wgmma: qkv, project, router logits and unembed.
#include "backend/cuda/dense/args.h"
#include "backend/cuda/dense/items.cuh"
#include "backend/cuda/pipeline/image_columns.cuh"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/route/args.h"

namespace nibble::cuda {
namespace {

template <Layout layout>
using WideShape = ImageShape<layout, layout == Layout::kMxfp4 ? kMostColumns : 128, 2>;
// The shape for batches: two CTAs share an SM, and while one waits for memory, the other multiplies.
template <Layout layout>
using NarrowShape = ImageShape<layout, kManyColumns, 1, 2>;
using RouterShape = NarrowShape<Layout::kBf16>;

}  // namespace

void qkv_wgmma(const LaunchContext& gpu, const QkvArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_qkv<WideShape<layout()>>(gpu, args); });
}
void qkv_narrow(const LaunchContext& gpu, const QkvArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_qkv<NarrowShape<layout()>>(gpu, args); });
}
void project_wgmma(const LaunchContext& gpu, const ProjectArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_project<WideShape<layout()>>(gpu, args); });
}
void project_narrow(const LaunchContext& gpu, const ProjectArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_project<NarrowShape<layout()>>(gpu, args); });
}
void unembed_wgmma(const LaunchContext& gpu, const UnembedArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_unembed<WideShape<layout()>>(gpu, args); });
}
void unembed_narrow(const LaunchContext& gpu, const UnembedArgs& args) {
  with_layout(args.weights.layout, [&](auto layout) { launch_unembed<NarrowShape<layout()>>(gpu, args); });
}
void logits_wgmma(const LaunchContext& gpu, const RouteArgs& args) { launch_logits<RouterShape>(gpu, args); }

size_t wgmma_shared_bytes(Layout layout) {
  size_t bytes = 0;
  with_layout(layout, [&](auto l) { bytes = std::max({WideShape<l()>::kBytes, NarrowShape<l()>::kBytes}); });
  return bytes;
}

void prepare_wgmma_dense() {
  for_each_layout([](auto layout) {
    prepare_dense<WideShape<layout()>>();
    prepare_dense<NarrowShape<layout()>>();
  });
  allow_shared_bytes(logits_many_kernel<RouterShape>, RouterShape::kBytes);
}

}  // namespace nibble::cuda
