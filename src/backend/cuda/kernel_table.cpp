// The rows of the kernel table (kernel_table.h).
#include "backend/cuda/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/pipeline/stream_shape.h"

namespace nibble::cuda {
namespace {

using enum Format;
using enum MatrixEngine;
using enum Operation;

// The functions from here to wgmma() return the smallest shared memory, in bytes, with which a CTA of a
// kernel can run. The names of the first four say over which dimension the product sums. A dense product can
// process its columns one by one; an expert's product needs all columns of a group at once.
size_t dense_hidden(const Config& c, Format weights) {
  return least_stream_bytes(layout_of(weights), c.hidden, 1);
}
size_t dense_heads(const Config& c, Format weights) {
  return least_stream_bytes(layout_of(weights), c.num_heads * c.head_dim, 1);
}
size_t group_hidden(const Config& c, Format weights) {
  return least_stream_bytes(layout_of(weights), c.hidden, kMaxColumns);
}
size_t group_intermediate(const Config& c, Format weights) {
  return least_stream_bytes(layout_of(weights), c.intermediate, kMaxColumns);
}
size_t one_hidden(const Config& c, Format) { return least_stream_bytes(Layout::kMxfp4, c.hidden, 1); }
size_t two_hidden(const Config& c, Format) { return least_stream_bytes(Layout::kMxfp4, c.hidden, 2); }
size_t many(const Config&, Format weights) { return many_shared_bytes(layout_of(weights)); }
template <BlockFormat format>
size_t blocks(const Config&, Format) {
  return block_shared_bytes(format);
}
template <BlockFormat format>
size_t dense_blocks(const Config&, Format) {
  return dense_block_shared_bytes(format);
}
size_t tiles(const Config&, Format) { return attend_tiles_shared_bytes(); }
size_t wgmma_tiles(const Config&, Format) { return attend_wgmma_shared_bytes(); }
size_t wgmma(const Config&, Format weights) { return wgmma_shared_bytes(layout_of(weights)); }

std::string why_not_one_launch(const Config& c, const Target& target) {
  const Strips up = make_strips(Layout::kMxfp4, 2 * c.intermediate, c.hidden);
  if (has_route_and_experts_up(target, router_strips(c), up, c.hidden, c.experts_per_token)) return {};
  return fmt::format("{} experts of {} units, {} for a token, in a hidden {}, on {} multiprocessors",
                     c.num_experts, c.intermediate, c.experts_per_token, c.hidden,
                     target.num_multiprocessors);
}

constexpr Format kFormats[]{kF32, kBf16, kE4m3, kMxfp4};

constexpr const char* kStrips{"docs/decisions/0005"};  // has measurements of strips and of alternatives
constexpr const char* kBatch{"docs/decisions/0016"};
constexpr const char* kPairs{"docs/decisions/0015"};
constexpr const char* kDealt{"docs/decisions/0019"};
constexpr const char* kMany{"weights are read once for 64 tokens"};
constexpr const char* kFour{"all four tensor cores of a multiprocessor for one product"};
constexpr const char* kBlocks{"--prompt-activations"};

// Returns the row of a kernel that multiplies MXFP4 weights by block-scaled activations.
constexpr KernelRow block_row(Format activations, Launcher launcher,
                              size_t (*shared_bytes)(const Config& config, Format weights),
                              const char* kernel) {
  return {.from_rows = kFewTokens + 1,
          .engine = kBlockScaled,
          .only = {kMxfp4},
          .activations = activations,
          .pass = kManyPass,
          .launcher = launcher,
          .shared_bytes = shared_bytes,
          .kernel = kernel,
          .reason = kBlocks};
}

// clang-format off
constexpr KernelRow kEmbedRows[]{
    {.activations = kF32, .launcher = &embed, .kernel = "embed"},
};

// RMSNorm in its own launch. Steps of few rows have no such launch: the kernels that read a norm compute it.
constexpr KernelRow kNormRows[]{
    {.from_rows = kOwnNorms + 1, .activations = kF32, .launcher = &rms_norm,
     .kernel = "rms_norm: a CTA for each row"},
};

constexpr KernelRow kQkvRows[]{
    {.to_rows = kOwnNorms, .engine = kMma, .pass = kFewPass, .launcher = &qkv, .shared_bytes = &dense_hidden,
     .kernel = "qkv: norm, strips of 16 rows", .reason = kStrips},
    {.from_rows = kOwnNorms + 1, .to_rows = kFewTokens, .engine = kMma, .pass = kNormPass,
     .launcher = &qkv_normed, .shared_bytes = &dense_hidden, .kernel = "qkv_normed: strips of 16 rows",
     .reason = kBatch},
    {.from_rows = kFewTokens + 1, .engine = kMma, .pass = kManyPass, .launcher = &qkv_many,
     .shared_bytes = &many, .kernel = "qkv_many: strips of 16 rows for 64 tokens", .reason = kMany},
    {.from_rows = kMaxColumns + 1, .to_rows = kSplitTokens, .engine = kWgmma, .pass = kWgmmaPass,
     .launcher = &qkv_split, .max_rows = kSplitTokens, .shared_bytes = &wgmma,
     .kernel = "qkv_split: segments of strips for 64 tokens", .reason = kBatch},
    {.from_rows = kSplitTokens + 1, .to_rows = kNarrowTokens, .engine = kWgmma, .pass = kWgmmaPass,
     .launcher = &qkv_narrow, .shared_bytes = &wgmma, .kernel = "qkv_narrow: strips of 16 rows for 64 tokens",
     .reason = kFour},
    {.from_rows = kNarrowTokens + 1, .engine = kWgmma, .pass = kWgmmaPass, .launcher = &qkv_wgmma,
     .shared_bytes = &wgmma, .kernel = "qkv_wgmma: strips of 16 rows for 128 tokens (MXFP4: 96)",
     .reason = kFour},
    block_row(kMxfp8x2, &qkv_blocks, &dense_blocks<BlockFormat::kMxfp8x2>,
              "qkv_blocks: two block-scaled terms, 64 tokens"),
    block_row(kMxfp8, &qkv_blocks, &dense_blocks<BlockFormat::kMxfp8>, "qkv_blocks: block-scaled, 64 tokens"),
    block_row(kMxfp4, &qkv_blocks, &dense_blocks<BlockFormat::kMxfp4>, "qkv_blocks: block-scaled, 64 tokens"),
};

// Appends keys and values to the KV cache in steps in which a sequence has several rows. In other steps
// attend_rows() appends them.
constexpr KernelRow kAppendRows[]{
    {.from_rows = 2, .activations = kF32, .launcher = &append, .kernel = "append: rope"},
};

// Attention. Here from_rows and to_rows count the rows of one sequence in a step.
constexpr KernelRow kAttendRows[]{
    {.to_rows = kMinTiledRows - 1, .launcher = &attend_rows,
     .kernel = "attend_rows: rope, append, split over pages", .reason = kStrips},
    {.from_rows = kMinTiledRows, .engine = kMma, .launcher = &attend_tiles, .shared_bytes = &tiles,
     .kernel = "attend_tiles: 24 rows of a sequence", .reason = kMany},
    {.from_rows = kMinTiledRows, .engine = kWgmma, .launcher = &attend_wgmma, .shared_bytes = &wgmma_tiles,
     .kernel = "attend_wgmma: 24 rows of a sequence", .reason = kFour},
};

// Attention's output projection. The kernels also add the residual stream.
constexpr KernelRow kProjectRows[]{
    {.to_rows = kFewTokens, .engine = kMma, .pass = kFewPass, .launcher = &project,
     .shared_bytes = &dense_heads, .kernel = "project: strips of 16 rows, residual", .reason = kStrips},
    {.from_rows = kFewTokens + 1, .engine = kMma, .pass = kManyPass, .launcher = &project_many,
     .shared_bytes = &many, .kernel = "project_many: strips of 16 rows for 64 tokens", .reason = kMany},
    {.from_rows = kMaxColumns + 1, .to_rows = kSplitTokens, .engine = kWgmma, .pass = kWgmmaPass,
     .launcher = &project_split, .max_rows = kSplitTokens, .shared_bytes = &wgmma,
     .kernel = "project_split: segments of strips for 64 tokens", .reason = kBatch},
    {.from_rows = kSplitTokens + 1, .to_rows = kNarrowProject, .engine = kWgmma, .pass = kWgmmaPass,
     .launcher = &project_narrow, .shared_bytes = &wgmma,
     .kernel = "project_narrow: strips of 16 rows for 64 tokens", .reason = kFour},
    {.from_rows = kNarrowProject + 1, .engine = kWgmma, .pass = kWgmmaPass, .launcher = &project_wgmma,
     .shared_bytes = &wgmma, .kernel = "project_wgmma: strips of 16 rows for 128 tokens (MXFP4: 96)",
     .reason = kFour},
    block_row(kMxfp8x2, &project_blocks<BlockFormat::kMxfp8x2>, &dense_blocks<BlockFormat::kMxfp8x2>,
              "project_blocks: two block-scaled terms, 64 tokens"),
    block_row(kMxfp8, &project_blocks<BlockFormat::kMxfp8>, &dense_blocks<BlockFormat::kMxfp8>,
              "project_blocks: block-scaled, 64 tokens"),
    block_row(kMxfp4, &project_blocks<BlockFormat::kMxfp4>, &dense_blocks<BlockFormat::kMxfp4>,
              "project_blocks: block-scaled, 64 tokens"),
};

constexpr KernelRow kRouteAndExpertsUpOfOne{.to_rows = 1, .engine = kMma, .pass = kFewPass,
    .launcher = &route_and_experts_up, .max_rows = kOwnNorms, .shared_bytes = &one_hidden,
    .why_not = &why_not_one_launch, .kernel = "route_and_experts_up: norm, top K, SwiGLU in one launch",
    .reason = kStrips};
constexpr KernelRow kRouteAndExpertsUpOfTwo{.from_rows = 2, .to_rows = kOwnNorms, .engine = kMma,
    .pass = kFewPass, .launcher = &route_and_experts_up, .max_rows = kOwnNorms, .shared_bytes = &two_hidden,
    .why_not = &why_not_one_launch, .kernel = "route_and_experts_up: norm, top K, SwiGLU in one launch",
    .reason = kBatch};

constexpr KernelRow kRouteRows[]{
    kRouteAndExpertsUpOfOne, kRouteAndExpertsUpOfTwo,
    {.from_rows = kOwnNorms + 1, .to_rows = kMaxColumns, .engine = kMma, .pass = kRouterPass,
     .launcher = &route_batch, .kernel = "route_batch: norm, logits", .reason = kBatch},
    {.from_rows = kMaxColumns + 1, .to_rows = kFewTokens, .engine = kMma, .pass = kRouterPass,
     .launcher = &route_batch, .kernel = "route_batch: norm, top K, groups of 8", .reason = kBatch},
    {.from_rows = kFewTokens + 1, .engine = kMma, .pass = kManyPass, .launcher = &route_many,
     .shared_bytes = &many, .kernel = "route_many: top K, groups of 64", .reason = kMany},
    {.from_rows = kMaxColumns + 1, .to_rows = kManyTokens - 1, .engine = kWgmma, .pass = kRouterBatchPass,
     .launcher = &route_batch, .kernel = "route_batch: norm, top K, groups of 8", .reason = kBatch},
    {.from_rows = kManyTokens, .to_rows = kRouterTokens, .engine = kWgmma, .pass = kWgmmaPass,
     .launcher = &route_batch, .kernel = "route_batch: top K, groups of 64", .reason = kBatch},
    {.from_rows = kRouterTokens + 1, .to_rows = kWideTokens - 1, .engine = kWgmma, .pass = kWgmmaPass,
     .launcher = &route_wgmma, .shared_bytes = &wgmma, .kernel = "route_wgmma: top K, groups of 64",
     .reason = kFour},
    {.from_rows = kWideTokens, .engine = kWgmma, .pass = kWidePass, .launcher = &route_wgmma,
     .shared_bytes = &wgmma, .kernel = "route_wgmma: top K, groups of 96", .reason = kFour},
};

// Gate and up projections of the experts, and SwiGLU.
constexpr KernelRow kExpertsUpRows[]{
    kRouteAndExpertsUpOfOne, kRouteAndExpertsUpOfTwo,
    {.from_rows = kOwnNorms + 1, .to_rows = kMaxColumns, .engine = kMma, .pass = kFewPass,
     .launcher = &experts_up, .shared_bytes = &group_hidden,
     .kernel = "experts_up: top K, strips of 8 gates, their ups, SwiGLU", .reason = kBatch},
    {.from_rows = kMaxColumns + 1, .to_rows = kFewTokens, .engine = kMma, .pass = kFewPass,
     .launcher = &experts_up, .shared_bytes = &group_hidden,
     .kernel = "experts_up: strips of 8 gates and their ups, SwiGLU", .reason = kStrips},
    {.from_rows = kFewTokens + 1, .engine = kMma, .pass = kManyPass, .launcher = &experts_up_many,
     .shared_bytes = &many, .kernel = "experts_up_many: the same for 64 pairs", .reason = kMany},
    {.from_rows = kMaxColumns + 1, .to_rows = kManyTokens - 1, .engine = kWgmma, .pass = kBatchPass,
     .launcher = &experts_up_images, .shared_bytes = &wgmma,
     .kernel = "experts_up_images: 8 pairs by mma.sync", .reason = kPairs},
    {.from_rows = kManyTokens, .to_rows = kWideTokens - 1, .engine = kWgmma, .pass = kWgmmaPass,
     .launcher = &experts_up_images, .shared_bytes = &wgmma, .kernel = "experts_up_images: 64 pairs by wgmma",
     .reason = kFour},
    {.from_rows = kWideTokens, .engine = kWgmma, .pass = kWidePass, .launcher = &experts_up_images,
     .shared_bytes = &wgmma, .kernel = "experts_up_images: 96 pairs by wgmma", .reason = kFour},
    block_row(kMxfp8x2, &experts_up_blocks, &blocks<BlockFormat::kMxfp8x2>,
              "experts_up_blocks: two block-scaled terms, 64 pairs"),
    block_row(kMxfp8, &experts_up_blocks, &blocks<BlockFormat::kMxfp8>,
              "experts_up_blocks: block-scaled, 64 pairs"),
    block_row(kMxfp4, &experts_up_blocks, &blocks<BlockFormat::kMxfp4>,
              "experts_up_blocks: block-scaled, 64 pairs"),
};

// Down projections of the experts, multiplied by the router's weights.
constexpr KernelRow kExpertsDownRows[]{
    {.to_rows = kFewTokens, .engine = kMma, .pass = kFewPass, .launcher = &experts_down,
     .shared_bytes = &group_intermediate, .kernel = "experts_down: strips of 16 rows, weighted",
     .reason = kStrips},
    {.from_rows = kFewTokens + 1, .engine = kMma, .pass = kManyPass, .launcher = &experts_down_many,
     .shared_bytes = &many, .kernel = "experts_down_many: the same for 64 pairs", .reason = kMany},
    {.from_rows = kMaxColumns + 1, .to_rows = kManyTokens - 1, .engine = kWgmma, .pass = kBatchPass,
     .launcher = &experts_down_images, .shared_bytes = &wgmma,
     .kernel = "experts_down_images: 8 pairs by mma.sync", .reason = kPairs},
    {.from_rows = kManyTokens, .to_rows = kWideTokens - 1, .engine = kWgmma, .pass = kWgmmaPass,
     .launcher = &experts_down_images, .shared_bytes = &wgmma,
     .kernel = "experts_down_images: 64 pairs by wgmma", .reason = kFour},
    {.from_rows = kWideTokens, .engine = kWgmma, .pass = kWidePass, .launcher = &experts_down_images,
     .shared_bytes = &wgmma, .kernel = "experts_down_images: 96 pairs by wgmma", .reason = kFour},
    block_row(kMxfp8x2, &experts_down_blocks, &blocks<BlockFormat::kMxfp8x2>,
              "experts_down_blocks: two block-scaled terms, 64 pairs"),
    block_row(kMxfp8, &experts_down_blocks, &blocks<BlockFormat::kMxfp8>,
              "experts_down_blocks: block-scaled, 64 pairs"),
    block_row(kMxfp4, &experts_down_blocks, &blocks<BlockFormat::kMxfp4>,
              "experts_down_blocks: block-scaled, 64 pairs"),
};

// On Hopper, strips of lm_head in BF16 or E4M3 are dealt out (scheduled dynamically) for up to kMaxColumns
// rows.
constexpr KernelRow kUnembedRows[]{
    {.to_rows = kMaxColumns, .engine = kMma, .only = {kBf16, kE4m3}, .families = kNotHopper, .pass = kFewPass,
     .launcher = &unembed, .shared_bytes = &dense_hidden, .kernel = "unembed: norm, strips of 16 rows",
     .reason = kStrips},
    {.to_rows = kMaxColumns, .engine = kMma, .only = {kBf16, kE4m3}, .families = kHopper, .pass = kDealtPass,
     .launcher = &unembed_dealt, .shared_bytes = &dense_hidden,
     .kernel = "unembed_dealt: norm, strips of 16 rows dealt out", .reason = kDealt},
    {.to_rows = kMaxColumns, .engine = kMma, .only = {kMxfp4}, .pass = kFewPass, .launcher = &unembed,
     .shared_bytes = &dense_hidden, .kernel = "unembed: norm, strips of 16 rows", .reason = kStrips},
    {.from_rows = kMaxColumns + 1, .to_rows = kFewTokens, .engine = kMma, .pass = kFewPass,
     .launcher = &unembed, .shared_bytes = &dense_hidden, .kernel = "unembed: norm, strips of 16 rows",
     .reason = kStrips},
    {.from_rows = kFewTokens + 1, .engine = kMma, .pass = kManyPass, .launcher = &unembed_many,
     .shared_bytes = &many, .kernel = "unembed_many: strips of 16 rows for 64 tokens", .reason = kMany},
    {.from_rows = kOwnNorms + 1, .to_rows = kManyColumns, .engine = kWgmma, .only = {kBf16},
     .pass = kWgmmaPass, .launcher = &unembed_narrow, .shared_bytes = &wgmma,
     .kernel = "unembed_narrow: strips of 16 rows for 64 tokens", .reason = kDealt},
    {.from_rows = kMaxColumns + 1, .to_rows = kManyColumns, .engine = kWgmma, .only = {kE4m3, kMxfp4},
     .pass = kWgmmaPass, .launcher = &unembed_narrow, .shared_bytes = &wgmma,
     .kernel = "unembed_narrow: strips of 16 rows for 64 tokens", .reason = kFour},
    {.from_rows = kManyColumns + 1, .engine = kWgmma, .pass = kWgmmaPass, .launcher = &unembed_wgmma,
     .shared_bytes = &wgmma, .kernel = "unembed_wgmma: strips of 16 rows for 128 tokens (MXFP4: 96)",
     .reason = kFour},
    block_row(kMxfp8x2, &unembed_blocks, &dense_blocks<BlockFormat::kMxfp8x2>,
              "unembed_blocks: two block-scaled terms, 64 tokens"),
    block_row(kMxfp8, &unembed_blocks, &dense_blocks<BlockFormat::kMxfp8>,
              "unembed_blocks: block-scaled, 64 tokens"),
    block_row(kMxfp4, &unembed_blocks, &dense_blocks<BlockFormat::kMxfp4>,
              "unembed_blocks: block-scaled, 64 tokens"),
};

constexpr KernelRow kSampleRows[]{
    {.activations = kF32, .launcher = &sample, .kernel = "best; sample: a cluster or a CTA for each row"},
};
// clang-format on

struct OperationRows {
  Operation operation;
  EnumSet<Format> weights;
  std::span<const KernelRow> rows;
};
constexpr EnumSet<Format> kDense{kBf16, kE4m3, kMxfp4}, kCache{kBf16, kE4m3};
constexpr OperationRows kTable[]{
    {kEmbed, {kBf16}, kEmbedRows},
    {kRmsNorm, {kF32}, kNormRows},
    {kQkv, kDense, kQkvRows},
    {kAppend, kCache, kAppendRows},
    {kAttend, kCache, kAttendRows},
    {kProject, kDense, kProjectRows},
    {kRoute, {kBf16}, kRouteRows},
    {kExpertsUp, {kMxfp4}, kExpertsUpRows},
    {kExpertsDown, {kMxfp4}, kExpertsDownRows},
    {kUnembed, kDense, kUnembedRows},
    {kSample, {kF32}, kSampleRows},
};

// Wgmma kernels run only on Hopper.
Families valid_families(const KernelRow& row) { return row.engine == kWgmma ? kHopper : row.families; }

// Returns the largest number of rows for which `row` is used in a plan with wgmma. For larger numbers, the
// table row of a wgmma kernel replaces `row`.
int rows_kept(const KernelRow& row, std::span<const KernelRow> rows, Format weights) {
  int kept = row.to_rows;
  for (const KernelRow& other : rows) {
    const bool replaces = row.engine == kMma && other.engine == kWgmma && other.only.include(weights) &&
                          valid_families(other).intersect(row.families);
    if (replaces && other.to_rows >= row.from_rows)
      kept = std::min(kept, std::max(other.from_rows, row.from_rows) - 1);
  }
  return kept;
}

// Adds `row` for one format of weights. If wgmma rows replace the upper part of its range of row counts, adds
// `row` as two rows, one for each part of the range: a plan can take or reject a row only as a whole.
void add(const OperationRows& of, const KernelRow& row, Format weights, std::vector<KernelRow>& all) {
  KernelRow whole = row;
  whole.operation = of.operation;
  whole.weights = weights;
  whole.families = valid_families(row);
  const int kept = rows_kept(row, of.rows, weights);
  if (row.from_rows <= kept && kept < row.to_rows) {
    all.push_back(whole);
    all.back().to_rows = kept;
    whole.from_rows = kept + 1;
  }
  all.push_back(whole);
}

std::vector<KernelRow> all_rows() {
  std::vector<KernelRow> all;
  for (const OperationRows& of : kTable)
    for (const Format weights : kFormats)
      for (const KernelRow& row : of.rows)
        if (of.weights.include(weights) && row.only.include(weights)) add(of, row, weights, all);
  return all;
}

}  // namespace

std::span<const KernelRow> kernel_rows() {
  static const std::vector<KernelRow> rows = all_rows();
  return rows;
}

std::string name(const KernelRow& row) {
  std::string name = fmt::format("{}/{}", nibble::name(row.operation), nibble::name(row.weights));
  if (block_format_of(row)) name += fmt::format("/{}", nibble::name(row.activations));
  for (char& letter : name)
    if (letter == ' ') letter = '-';
  if (row.engine == kWgmma) name += "/wgmma";
  if (row.pass.deals_out) name += "/dealt";
  if (row.from_rows == row.to_rows) return fmt::format("{}/{}", name, row.from_rows);
  if (row.to_rows < kAnyRows) return fmt::format("{}/{}-{}", name, row.from_rows, row.to_rows);
  return row.from_rows > 1 ? fmt::format("{}/{}-", name, row.from_rows) : name;
}

Format format_of(BlockFormat format) {
  return format == BlockFormat::kMxfp8x2 ? Format::kMxfp8x2
         : format == BlockFormat::kMxfp8 ? Format::kMxfp8
                                         : Format::kMxfp4;
}

std::optional<BlockFormat> block_format_of(const KernelRow& row) {
  for (const BlockFormat format : kBlockFormats)
    if (row.activations == format_of(format)) return format;
  return std::nullopt;
}

std::vector<const KernelRow*> rows_valid_for(Family family, std::span<const KernelRow> rows) {
  std::vector<const KernelRow*> valid;
  for (const KernelRow& row : rows)
    if (row.families.include(family)) valid.push_back(&row);
  return valid;
}

std::vector<const KernelRow*> rows_with_code_for(const Target& target, std::span<const KernelRow> rows) {
  std::vector<const KernelRow*> found = rows_valid_for(target.family, rows);
  if (!multiplies_by_wgmma(target))
    std::erase_if(found, [](const KernelRow* row) { return row->engine == kWgmma; });
  return found;
}

GroupRoom group_room(const Config& config, int max_tokens, std::span<const KernelRow> rows,
                     std::span<const TunedSteps> tuned_steps) {
  GroupRoom room{0, 0};
  // The number of groups grows with the number of tokens, so the largest step of each row needs the most
  // room.
  const auto add = [&](const KernelRow& row, int from_rows, int to_rows) {
    if (from_rows > max_tokens) return;
    const int groups = max_num_groups(std::min(to_rows, max_tokens), config.experts().count,
                                      config.experts_per_token, row.pass.columns);
    room.num_groups = std::max(room.num_groups, groups);
    room.num_pairs = std::max(room.num_pairs, groups * row.pass.columns);
  };
  for (const KernelRow& row : rows) {
    if (row.operation != Operation::kRoute) continue;
    add(row, row.from_rows, row.to_rows);
    for (const TunedSteps& steps : tuned_steps)
      if (row.takes(steps.experts)) add(row, steps.from_rows, steps.to_rows);
  }
  return room;
}

}  // namespace nibble::cuda
