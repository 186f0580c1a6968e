// Dense matrix products of many tokens with block-scaled activations: qkv, project and unembed, with MXFP4
// weights. rms_norm() quantises the activations of qkv and unembed. The activations of project are the output
// of attention, in bfloat16: a separate launch quantises them before the product. The products share their
// code with those of the experts (pipeline/block_columns.cuh).
#include "backend/cuda/dense/args.h"
#include "backend/cuda/dense/items.cuh"
#include "backend/cuda/layout/block_rows.h"
#include "backend/cuda/pipeline/block_columns.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/store_block.cuh"

namespace nibble::cuda {
namespace {

struct QuantiseArgs {
  const __nv_bfloat16* from;  // [rows, to.cols]; rows are 16-byte aligned
  BlockRows to;               // [rows, to.cols], output, padded with zeros to whole tiles
};

constexpr int kQuantiseThreads{256};

// Quantises row blockIdx.x. Each thread handles eight adjacent columns. Threads past the end of the row call
// store_eight() too, because all threads of a warp must call it.
template <BlockFormat format>
__global__ void __launch_bounds__(kQuantiseThreads)
    quantise_kernel(const __grid_constant__ QuantiseArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  wait_for_predecessor(timestamps);
  let_successor_start();
  const int row = static_cast<int>(blockIdx.x),
            eight = static_cast<int>(blockIdx.y * kQuantiseThreads + threadIdx.x);
  const bool is_there = 8 * eight < padded_cols(args.to.cols);
  uint4 numbers{};
  if (8 * eight < args.to.cols)
    numbers = __ldcg(reinterpret_cast<const uint4*>(args.from + size_t{1} * row * args.to.cols) + eight);
  store_eight<format>(args.to, row, eight, is_there, numbers);
}

// Returns block-scaled rows at the start of `memory`, which must have bytes_of_rows() bytes.
BlockRows rows_at(void* memory, BlockFormat format, int num_rows, int cols) {
  BlockRows rows{format, cols, static_cast<uint8_t*>(memory), nullptr};
  // A row's codes are whole tiles of 32 bytes or more, so the scales are aligned.
  rows.scales = reinterpret_cast<uint32_t*>(rows.codes + static_cast<size_t>(num_rows) * row_bytes(rows));
  return rows;
}

}  // namespace

void qkv_blocks(const LaunchContext& gpu, const QkvArgs& args) {
  with_block_format(args.normed.blocks.format,
                    [&](auto format) { launch_qkv<BlockShape<format()>>(gpu, args); });
}
template <BlockFormat format>
void project_blocks(const LaunchContext& gpu, const ProjectArgs& args) {
  constexpr int kCols{8 * kQuantiseThreads};
  const BlockRows blocks = rows_at(args.sums, format, args.num_tokens, args.cols);
  const auto rows = static_cast<unsigned>(args.num_tokens),
             chunks = static_cast<unsigned>((padded_cols(args.cols) + kCols - 1) / kCols);
  launch(gpu, {Operation::kProject, "project quantise"}, quantise_kernel<format>,
         {dim3(rows, chunks), kQuantiseThreads}, QuantiseArgs{args.attended.data, blocks});
  ProjectArgs with_blocks = args;
  with_blocks.attended = Activations(blocks);
  launch_project<BlockShape<format>>(gpu, with_blocks);
}
template void project_blocks<BlockFormat::kMxfp8x2>(const LaunchContext&, const ProjectArgs&);
template void project_blocks<BlockFormat::kMxfp8>(const LaunchContext&, const ProjectArgs&);
template void project_blocks<BlockFormat::kMxfp4>(const LaunchContext&, const ProjectArgs&);
void unembed_blocks(const LaunchContext& gpu, const UnembedArgs& args) {
  with_block_format(args.normed.blocks.format,
                    [&](auto format) { launch_unembed<BlockShape<format()>>(gpu, args); });
}

size_t dense_block_shared_bytes(BlockFormat format) {
  size_t bytes = 0;
  with_block_format(format, [&](auto f) { bytes = BlockShape<f()>::kBytes; });
  return bytes;
}

void prepare_dense_blocks() {
  for (const BlockFormat each : kBlockFormats)
    with_block_format(each, [](auto format) {
      prepare_dense<BlockShape<format()>>();
      prefer_shared_memory(quantise_kernel<format()>);
    });
}

}  // namespace nibble::cuda
