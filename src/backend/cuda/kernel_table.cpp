// Rows only; nothing here launches.
#include "backend/cuda/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "backend/cuda/decode/stream_shape.h"
#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/memory/device_weights.h"
#include "backend/cuda/verify/checks.h"

namespace nibble::cuda {
namespace {

constexpr const char* kOnly{"the only one of its format"};
constexpr const char* kStrips{"docs/decisions/0005"};  // alternatives that were measured
constexpr const char* kBatch{"docs/decisions/0016"};
constexpr const char* kPairs{"docs/decisions/0015"};
constexpr const char* kDealt{"docs/decisions/0019"};
constexpr const char* kMany{"weights are read once for 64 tokens"};
constexpr const char* kWgmma{"all four tensor cores of a multiprocessor for one product"};
constexpr const char* kBlocks{"--prompt-activations"};
using enum Format;
using enum Operation;

// The least bytes that the kernels of an operation take, by the widths of its matrix. The columns of a dense matrix may be taken one by
// one. Those of a group of an expert are taken together.
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
size_t tiles(const Config&, Format) { return attend_tiles_shared_bytes(); }
size_t wgmma_tiles(const Config&, Format) { return attend_wgmma_shared_bytes(); }

size_t wgmma(const Config&, Format weights) { return wgmma_shared_bytes(layout_of(weights)); }

std::string why_not_wgmma(const Config&, const Target& target) {
  return multiplies_by_wgmma(target)
             ? ""
             : fmt::format("{} KB of shared memory, of 227", kilobytes(target.budget));
}
std::string why_not_mma(const Config&, const Target& target) {
  return multiplies_by_wgmma(target) ? "wgmma multiplies here" : "";
}

std::string why_not_one_launch(const Config& c, const Target& target) {
  const Strips up = make_strips(Layout::kMxfp4, 2 * c.intermediate, c.hidden);
  if (has_route_and_experts_up(target, router_strips(c), up, c.hidden, c.experts_per_token)) return {};
  return fmt::format("{} experts of {} units, {} for a token, in a hidden {}, on {} multiprocessors",
                     c.num_experts, c.intermediate, c.experts_per_token, c.hidden,
                     target.num_multiprocessors);
}

constexpr auto* kAnyModel{static_cast<std::string (*)(const Config&, const Target&)>(nullptr)};
constexpr auto* kLittle{static_cast<size_t (*)(const Config&, Format)>(nullptr)};

// clang-format off
constexpr KernelRow kRows[]{
    // operation   weights act.      rows                                  families         pass        launcher               shared memory                   models               kernel                                                     reason   check
    {kEmbed,       kBf16,  kF32,     1,                 kAnyRows,          kEverywhere,     kNoPass,    &embed,                kLittle,                        kAnyModel,           "embed",                                                   kOnly,   &verify::check_embed},
    {kRmsNorm,     kF32,   kF32,     kOwnNorms + 1,     kAnyRows,          kEverywhere,     kNoPass,    &rms_norm,             kLittle,                        kAnyModel,           "rms_norm: a CTA for each row",                            kOnly,   &verify::check_rms_norm},
    {kQkv,         kBf16,  kBf16,    1,                 kOwnNorms,         kEverywhere,     kFewPass,   &qkv,                  &dense_hidden,                  kAnyModel,           "qkv: norm, strips of 16 rows",                            kStrips, &verify::check_qkv},
    {kQkv,         kBf16,  kBf16,    kOwnNorms + 1,     kMaxColumns,       kEverywhere,     kNormPass,  &qkv_normed,           &dense_hidden,                  kAnyModel,           "qkv_normed: strips of 16 rows",                           kBatch,  &verify::check_qkv},
    {kQkv,         kBf16,  kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kNormPass,  &qkv_normed,           &dense_hidden,                  &why_not_mma,        "qkv_normed: strips of 16 rows",                           kBatch,  &verify::check_qkv},
    {kQkv,         kE4m3,  kBf16,    1,                 kOwnNorms,         kEverywhere,     kFewPass,   &qkv,                  &dense_hidden,                  kAnyModel,           "qkv: norm, strips of 16 rows",                            kStrips, &verify::check_qkv},
    {kQkv,         kE4m3,  kBf16,    kOwnNorms + 1,     kMaxColumns,       kEverywhere,     kNormPass,  &qkv_normed,           &dense_hidden,                  kAnyModel,           "qkv_normed: strips of 16 rows",                           kBatch,  &verify::check_qkv},
    {kQkv,         kE4m3,  kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kNormPass,  &qkv_normed,           &dense_hidden,                  &why_not_mma,        "qkv_normed: strips of 16 rows",                           kBatch,  &verify::check_qkv},
    {kQkv,         kMxfp4, kBf16,    1,                 kOwnNorms,         kEverywhere,     kFewPass,   &qkv,                  &dense_hidden,                  kAnyModel,           "qkv: norm, strips of 16 rows",                            kStrips, &verify::check_qkv},
    {kQkv,         kMxfp4, kBf16,    kOwnNorms + 1,     kMaxColumns,       kEverywhere,     kNormPass,  &qkv_normed,           &dense_hidden,                  kAnyModel,           "qkv_normed: strips of 16 rows",                           kBatch,  &verify::check_qkv},
    {kQkv,         kMxfp4, kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kNormPass,  &qkv_normed,           &dense_hidden,                  &why_not_mma,        "qkv_normed: strips of 16 rows",                           kBatch,  &verify::check_qkv},
    {kQkv,         kBf16,  kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &qkv_many,             &many,                          &why_not_mma,        "qkv_many: strips of 16 rows for 64 tokens",               kMany,   &verify::check_qkv},
    {kQkv,         kBf16,  kBf16,    kMaxColumns + 1,   kSplitTokens,      {Family::kSm90}, kWgmmaPass, &qkv_split,            &wgmma,                         &why_not_wgmma,      "qkv_split: segments of strips for 64 tokens",             kBatch,  &verify::check_qkv},
    {kQkv,         kBf16,  kBf16,    kSplitTokens + 1,  kNarrowTokens,     {Family::kSm90}, kWgmmaPass, &qkv_narrow,           &wgmma,                         &why_not_wgmma,      "qkv_narrow: strips of 16 rows for 64 tokens",             kWgmma,  &verify::check_qkv},
    {kQkv,         kBf16,  kBf16,    kNarrowTokens + 1, kAnyRows,          {Family::kSm90}, kWgmmaPass, &qkv_wgmma,            &wgmma,                         &why_not_wgmma,      "qkv_wgmma: strips of 16 rows for 128 tokens",             kWgmma,  &verify::check_qkv},
    {kQkv,         kE4m3,  kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &qkv_many,             &many,                          &why_not_mma,        "qkv_many: strips of 16 rows for 64 tokens",               kMany,   &verify::check_qkv},
    {kQkv,         kE4m3,  kBf16,    kMaxColumns + 1,   kSplitTokens,      {Family::kSm90}, kWgmmaPass, &qkv_split,            &wgmma,                         &why_not_wgmma,      "qkv_split: segments of strips for 64 tokens",             kBatch,  &verify::check_qkv},
    {kQkv,         kE4m3,  kBf16,    kSplitTokens + 1,  kNarrowTokens,     {Family::kSm90}, kWgmmaPass, &qkv_narrow,           &wgmma,                         &why_not_wgmma,      "qkv_narrow: strips of 16 rows for 64 tokens",             kWgmma,  &verify::check_qkv},
    {kQkv,         kE4m3,  kBf16,    kNarrowTokens + 1, kAnyRows,          {Family::kSm90}, kWgmmaPass, &qkv_wgmma,            &wgmma,                         &why_not_wgmma,      "qkv_wgmma: strips of 16 rows for 128 tokens",             kWgmma,  &verify::check_qkv},
    {kQkv,         kMxfp4, kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &qkv_many,             &many,                          &why_not_mma,        "qkv_many: strips of 16 rows for 64 tokens",               kMany,   &verify::check_qkv},
    {kQkv,         kMxfp4, kBf16,    kMaxColumns + 1,   kSplitTokens,      {Family::kSm90}, kWgmmaPass, &qkv_split,            &wgmma,                         &why_not_wgmma,      "qkv_split: segments of strips for 64 tokens",             kBatch,  &verify::check_qkv},
    {kQkv,         kMxfp4, kBf16,    kSplitTokens + 1,  kNarrowTokens,     {Family::kSm90}, kWgmmaPass, &qkv_narrow,           &wgmma,                         &why_not_wgmma,      "qkv_narrow: strips of 16 rows for 64 tokens",             kWgmma,  &verify::check_qkv},
    {kQkv,         kMxfp4, kBf16,    kNarrowTokens + 1, kAnyRows,          {Family::kSm90}, kWgmmaPass, &qkv_wgmma,            &wgmma,                         &why_not_wgmma,      "qkv_wgmma: strips of 16 rows for 128 tokens",             kWgmma,  &verify::check_qkv},
    {kAppend,      kBf16,  kF32,     2,                 kAnyRows,          kEverywhere,     kNoPass,    &append,               kLittle,                        kAnyModel,           "append: rope",                                            kOnly,   &verify::check_append},
    {kAppend,      kE4m3,  kF32,     2,                 kAnyRows,          kEverywhere,     kNoPass,    &append,               kLittle,                        kAnyModel,           "append: rope",                                            kOnly,   &verify::check_append},
    {kAttend,      kBf16,  kBf16,    1,                 kMinTiledRows - 1, kEverywhere,     kNoPass,    &attend_rows,          kLittle,                        kAnyModel,           "attend_rows: rope, append, split over pages",             kStrips, &verify::check_attend_rows},
    {kAttend,      kBf16,  kBf16,    kMinTiledRows,     kAnyRows,          kEverywhere,     kNoPass,    &attend_tiles,         &tiles,                         &why_not_mma,        "attend_tiles: 24 rows of a sequence",                     kMany,   &verify::check_attend_tiles},
    {kAttend,      kBf16,  kBf16,    kMinTiledRows,     kAnyRows,          {Family::kSm90}, kNoPass,    &attend_wgmma,         &wgmma_tiles,                   &why_not_wgmma,      "attend_wgmma: 24 rows of a sequence",                     kWgmma,  &verify::check_attend_tiles},
    {kAttend,      kE4m3,  kBf16,    1,                 kMinTiledRows - 1, kEverywhere,     kNoPass,    &attend_rows,          kLittle,                        kAnyModel,           "attend_rows: rope, append, split over pages",             kStrips, &verify::check_attend_rows},
    {kAttend,      kE4m3,  kBf16,    kMinTiledRows,     kAnyRows,          kEverywhere,     kNoPass,    &attend_tiles,         &tiles,                         &why_not_mma,        "attend_tiles: 24 rows of a sequence",                     kMany,   &verify::check_attend_tiles},
    {kAttend,      kE4m3,  kBf16,    kMinTiledRows,     kAnyRows,          {Family::kSm90}, kNoPass,    &attend_wgmma,         &wgmma_tiles,                   &why_not_wgmma,      "attend_wgmma: 24 rows of a sequence",                     kWgmma,  &verify::check_attend_tiles},
    {kProject,     kBf16,  kBf16,    1,                 kMaxColumns,       kEverywhere,     kFewPass,   &project,              &dense_heads,                   kAnyModel,           "project: strips of 16 rows, residual",                    kStrips, &verify::check_project},
    {kProject,     kBf16,  kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kFewPass,   &project,              &dense_heads,                   &why_not_mma,        "project: strips of 16 rows, residual",                    kStrips, &verify::check_project},
    {kProject,     kE4m3,  kBf16,    1,                 kMaxColumns,       kEverywhere,     kFewPass,   &project,              &dense_heads,                   kAnyModel,           "project: strips of 16 rows, residual",                    kStrips, &verify::check_project},
    {kProject,     kE4m3,  kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kFewPass,   &project,              &dense_heads,                   &why_not_mma,        "project: strips of 16 rows, residual",                    kStrips, &verify::check_project},
    {kProject,     kMxfp4, kBf16,    1,                 kMaxColumns,       kEverywhere,     kFewPass,   &project,              &dense_heads,                   kAnyModel,           "project: strips of 16 rows, residual",                    kStrips, &verify::check_project},
    {kProject,     kMxfp4, kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kFewPass,   &project,              &dense_heads,                   &why_not_mma,        "project: strips of 16 rows, residual",                    kStrips, &verify::check_project},
    {kProject,     kBf16,  kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &project_many,         &many,                          &why_not_mma,        "project_many: strips of 16 rows for 64 tokens",           kMany,   &verify::check_project},
    {kProject,     kBf16,  kBf16,    kMaxColumns + 1,   kSplitTokens,      {Family::kSm90}, kWgmmaPass, &project_split,        &wgmma,                         &why_not_wgmma,      "project_split: segments of strips for 64 tokens",         kBatch,  &verify::check_project},
    {kProject,     kBf16,  kBf16,    kSplitTokens + 1,  kNarrowTokens,     {Family::kSm90}, kWgmmaPass, &project_narrow,       &wgmma,                         &why_not_wgmma,      "project_narrow: strips of 16 rows for 64 tokens",         kWgmma,  &verify::check_project},
    {kProject,     kBf16,  kBf16,    kNarrowTokens + 1, kAnyRows,          {Family::kSm90}, kWgmmaPass, &project_wgmma,        &wgmma,                         &why_not_wgmma,      "project_wgmma: strips of 16 rows for 128 tokens",         kWgmma,  &verify::check_project},
    {kProject,     kE4m3,  kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &project_many,         &many,                          &why_not_mma,        "project_many: strips of 16 rows for 64 tokens",           kMany,   &verify::check_project},
    {kProject,     kE4m3,  kBf16,    kMaxColumns + 1,   kSplitTokens,      {Family::kSm90}, kWgmmaPass, &project_split,        &wgmma,                         &why_not_wgmma,      "project_split: segments of strips for 64 tokens",         kBatch,  &verify::check_project},
    {kProject,     kE4m3,  kBf16,    kSplitTokens + 1,  kNarrowTokens,     {Family::kSm90}, kWgmmaPass, &project_narrow,       &wgmma,                         &why_not_wgmma,      "project_narrow: strips of 16 rows for 64 tokens",         kWgmma,  &verify::check_project},
    {kProject,     kE4m3,  kBf16,    kNarrowTokens + 1, kAnyRows,          {Family::kSm90}, kWgmmaPass, &project_wgmma,        &wgmma,                         &why_not_wgmma,      "project_wgmma: strips of 16 rows for 128 tokens",         kWgmma,  &verify::check_project},
    {kProject,     kMxfp4, kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &project_many,         &many,                          &why_not_mma,        "project_many: strips of 16 rows for 64 tokens",           kMany,   &verify::check_project},
    {kProject,     kMxfp4, kBf16,    kMaxColumns + 1,   kSplitTokens,      {Family::kSm90}, kWgmmaPass, &project_split,        &wgmma,                         &why_not_wgmma,      "project_split: segments of strips for 64 tokens",         kBatch,  &verify::check_project},
    {kProject,     kMxfp4, kBf16,    kSplitTokens + 1,  kNarrowTokens,     {Family::kSm90}, kWgmmaPass, &project_narrow,       &wgmma,                         &why_not_wgmma,      "project_narrow: strips of 16 rows for 64 tokens",         kWgmma,  &verify::check_project},
    {kProject,     kMxfp4, kBf16,    kNarrowTokens + 1, kAnyRows,          {Family::kSm90}, kWgmmaPass, &project_wgmma,        &wgmma,                         &why_not_wgmma,      "project_wgmma: strips of 16 rows for 128 tokens",         kWgmma,  &verify::check_project},
    {kRoute,       kBf16,  kBf16,    1,                 1,                 kEverywhere,     kFewPass,   &route_and_experts_up, &one_hidden,                    &why_not_one_launch, "route_and_experts_up: norm, top K, SwiGLU in one launch", kStrips, &verify::check_route_and_experts_up},
    {kRoute,       kBf16,  kBf16,    2,                 kOwnNorms,         kEverywhere,     kFewPass,   &route_and_experts_up, &two_hidden,                    &why_not_one_launch, "route_and_experts_up: norm, top K, SwiGLU in one launch", kBatch,  &verify::check_route_and_experts_up},
    {kRoute,       kBf16,  kBf16,    kOwnNorms + 1,     kMaxColumns,       kEverywhere,     kRouterPass, &route_batch,          kLittle,                       kAnyModel,           "route_batch: norm, logits",                               kBatch,  &verify::check_route},
    {kRoute,       kBf16,  kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kRouterPass, &route_batch,          kLittle,                       &why_not_mma,        "route_batch: norm, top K, groups of 8",                       kBatch,  &verify::check_route},
    {kRoute,       kBf16,  kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &route_many,           &many,                          &why_not_mma,        "route_many: top K, groups of 64",                         kMany,   &verify::check_route},
    {kRoute,       kBf16,  kBf16,    kMaxColumns + 1,   kManyTokens - 1,   {Family::kSm90}, kRouterBatchPass, &route_batch,    kLittle,                        &why_not_wgmma,      "route_batch: norm, top K, groups of 8",                      kBatch,  &verify::check_route},
    {kRoute,       kBf16,  kBf16,    kManyTokens,       kWideTokens - 1,   {Family::kSm90}, kWgmmaPass, &route_wgmma,          &wgmma,                         &why_not_wgmma,      "route_wgmma: top K, groups of 64",                        kWgmma,  &verify::check_route},
    {kRoute,       kBf16,  kBf16,    kWideTokens,       kAnyRows,          {Family::kSm90}, kWidePass,  &route_wgmma,          &wgmma,                         &why_not_wgmma,      "route_wgmma: top K, groups of 96" ,                       kWgmma,  &verify::check_route},
    {kExpertsUp,   kMxfp4, kBf16,    1,                 1,                 kEverywhere,     kFewPass,   &route_and_experts_up, &one_hidden,                    &why_not_one_launch, "route_and_experts_up: norm, top K, SwiGLU in one launch", kStrips, &verify::check_route_and_experts_up},
    {kExpertsUp,   kMxfp4, kBf16,    2,                 kOwnNorms,         kEverywhere,     kFewPass,   &route_and_experts_up, &two_hidden,                    &why_not_one_launch, "route_and_experts_up: norm, top K, SwiGLU in one launch", kBatch,  &verify::check_route_and_experts_up},
    {kExpertsUp,   kMxfp4, kBf16,    kOwnNorms + 1,     kMaxColumns,       kEverywhere,     kFewPass,   &experts_up,           &group_hidden,                  kAnyModel,           "experts_up: top K, strips of 8 gates, their ups, SwiGLU", kBatch,  &verify::check_experts_up},
    {kExpertsUp,   kMxfp4, kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kFewPass,   &experts_up,           &group_hidden,                  &why_not_mma,        "experts_up: strips of 8 gates and their ups, SwiGLU",     kStrips, &verify::check_experts_up},
    {kExpertsUp,   kMxfp4, kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &experts_up_many,      &many,                          &why_not_mma,        "experts_up_many: the same for 64 pairs",                  kMany,   &verify::check_experts_up},
    {kExpertsUp,   kMxfp4, kBf16,    kMaxColumns + 1,   kManyTokens - 1,   {Family::kSm90}, kBatchPass, &experts_up_images,    &wgmma,                         &why_not_wgmma,      "experts_up_images: 8 pairs by mma.sync",                  kPairs,  &verify::check_experts_up},
    {kExpertsUp,   kMxfp4, kBf16,    kManyTokens,       kWideTokens - 1,   {Family::kSm90}, kWgmmaPass, &experts_up_images,    &wgmma,                         &why_not_wgmma,      "experts_up_images: 64 pairs by wgmma",                    kWgmma,  &verify::check_experts_up},
    {kExpertsUp,   kMxfp4, kBf16,    kWideTokens,       kAnyRows,          {Family::kSm90}, kWidePass,  &experts_up_images,    &wgmma,                         &why_not_wgmma,      "experts_up_images: 96 pairs by wgmma",                    kWgmma,  &verify::check_experts_up},
    {kExpertsUp,   kMxfp4, kMxfp8x2, kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &experts_up_blocks,    &blocks<BlockFormat::kMxfp8x2>, kAnyModel,           "experts_up_blocks: two block-scaled terms, 64 pairs",     kBlocks, &verify::check_experts_up},
    {kExpertsUp,   kMxfp4, kMxfp8,   kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &experts_up_blocks,    &blocks<BlockFormat::kMxfp8>,   kAnyModel,           "experts_up_blocks: block-scaled, 64 pairs",               kBlocks, &verify::check_experts_up},
    {kExpertsUp,   kMxfp4, kMxfp4,   kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &experts_up_blocks,    &blocks<BlockFormat::kMxfp4>,   kAnyModel,           "experts_up_blocks: block-scaled, 64 pairs",               kBlocks, &verify::check_experts_up},
    {kExpertsDown, kMxfp4, kBf16,    1,                 kMaxColumns,       kEverywhere,     kFewPass,   &experts_down,         &group_intermediate,            kAnyModel,           "experts_down: strips of 16 rows, weighted",               kStrips, &verify::check_experts_down},
    {kExpertsDown, kMxfp4, kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kFewPass,   &experts_down,         &group_intermediate,            &why_not_mma,        "experts_down: strips of 16 rows, weighted",               kStrips, &verify::check_experts_down},
    {kExpertsDown, kMxfp4, kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &experts_down_many,    &many,                          &why_not_mma,        "experts_down_many: the same for 64 pairs",                kMany,   &verify::check_experts_down},
    {kExpertsDown, kMxfp4, kBf16,    kMaxColumns + 1,   kManyTokens - 1,   {Family::kSm90}, kBatchPass, &experts_down_images,  &wgmma,                         &why_not_wgmma,      "experts_down_images: 8 pairs by mma.sync",                kPairs,  &verify::check_experts_down},
    {kExpertsDown, kMxfp4, kBf16,    kManyTokens,       kWideTokens - 1,   {Family::kSm90}, kWgmmaPass, &experts_down_images,  &wgmma,                         &why_not_wgmma,      "experts_down_images: 64 pairs by wgmma",                  kWgmma,  &verify::check_experts_down},
    {kExpertsDown, kMxfp4, kBf16,    kWideTokens,       kAnyRows,          {Family::kSm90}, kWidePass,  &experts_down_images,  &wgmma,                         &why_not_wgmma,      "experts_down_images: 96 pairs by wgmma",                  kWgmma,  &verify::check_experts_down},
    {kExpertsDown, kMxfp4, kMxfp8x2, kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &experts_down_blocks,  &blocks<BlockFormat::kMxfp8x2>, kAnyModel,           "experts_down_blocks: two block-scaled terms, 64 pairs",   kBlocks, &verify::check_experts_down},
    {kExpertsDown, kMxfp4, kMxfp8,   kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &experts_down_blocks,  &blocks<BlockFormat::kMxfp8>,   kAnyModel,           "experts_down_blocks: block-scaled, 64 pairs",             kBlocks, &verify::check_experts_down},
    {kExpertsDown, kMxfp4, kMxfp4,   kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &experts_down_blocks,  &blocks<BlockFormat::kMxfp4>,   kAnyModel,           "experts_down_blocks: block-scaled, 64 pairs",             kBlocks, &verify::check_experts_down},
    {kUnembed,     kBf16,  kBf16,    1,                 kMaxColumns,       kNotHopper,      kFewPass,   &unembed,              &dense_hidden,                  kAnyModel,           "unembed: norm, strips of 16 rows",                        kStrips, &verify::check_unembed},
    {kUnembed,     kBf16,  kBf16,    1,                 kOwnNorms,         {Family::kSm90}, kDealtPass, &unembed_dealt,        &dense_hidden,                  kAnyModel,           "unembed_dealt: norm, strips of 16 rows dealt out",        kDealt, &verify::check_unembed},
    {kUnembed,     kBf16,  kBf16,    kOwnNorms + 1,     kMaxColumns,       {Family::kSm90}, kDealtPass, &unembed_dealt,        &dense_hidden,                  &why_not_mma,        "unembed_dealt: norm, strips of 16 rows dealt out",        kDealt, &verify::check_unembed},
    {kUnembed,     kBf16,  kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kFewPass,   &unembed,              &dense_hidden,                  &why_not_mma,        "unembed: norm, strips of 16 rows",                        kStrips, &verify::check_unembed},
    {kUnembed,     kBf16,  kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &unembed_many,         &many,                          &why_not_mma,        "unembed_many: strips of 16 rows for 64 tokens",           kMany,   &verify::check_unembed},
    {kUnembed,     kBf16,  kBf16,    kOwnNorms + 1,     kAnyRows,          {Family::kSm90}, kWgmmaPass, &unembed_wgmma,        &wgmma,                         &why_not_wgmma,      "unembed_wgmma: strips of 16 rows for 64 tokens",          kDealt,  &verify::check_unembed},
    {kUnembed,     kE4m3,  kBf16,    1,                 kMaxColumns,       kNotHopper,      kFewPass,   &unembed,              &dense_hidden,                  kAnyModel,           "unembed: norm, strips of 16 rows",                        kStrips, &verify::check_unembed},
    {kUnembed,     kE4m3,  kBf16,    1,                 kMaxColumns,       {Family::kSm90}, kDealtPass, &unembed_dealt,        &dense_hidden,                  kAnyModel,           "unembed_dealt: norm, strips of 16 rows dealt out",        kDealt, &verify::check_unembed},
    {kUnembed,     kE4m3,  kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kFewPass,   &unembed,              &dense_hidden,                  &why_not_mma,        "unembed: norm, strips of 16 rows",                        kStrips, &verify::check_unembed},
    {kUnembed,     kE4m3,  kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &unembed_many,         &many,                          &why_not_mma,        "unembed_many: strips of 16 rows for 64 tokens",           kMany,   &verify::check_unembed},
    {kUnembed,     kE4m3,  kBf16,    kMaxColumns + 1,   kAnyRows,          {Family::kSm90}, kWgmmaPass, &unembed_wgmma,        &wgmma,                         &why_not_wgmma,      "unembed_wgmma: strips of 16 rows for 64 tokens",          kWgmma,  &verify::check_unembed},
    {kUnembed,     kMxfp4, kBf16,    1,                 kMaxColumns,       kEverywhere,     kFewPass,   &unembed,              &dense_hidden,                  kAnyModel,           "unembed: norm, strips of 16 rows",                        kStrips, &verify::check_unembed},
    {kUnembed,     kMxfp4, kBf16,    kMaxColumns + 1,   kFewTokens,        kEverywhere,     kFewPass,   &unembed,              &dense_hidden,                  &why_not_mma,        "unembed: norm, strips of 16 rows",                        kStrips, &verify::check_unembed},
    {kUnembed,     kMxfp4, kBf16,    kFewTokens + 1,    kAnyRows,          kEverywhere,     kManyPass,  &unembed_many,         &many,                          &why_not_mma,        "unembed_many: strips of 16 rows for 64 tokens",           kMany,   &verify::check_unembed},
    {kUnembed,     kMxfp4, kBf16,    kMaxColumns + 1,   kAnyRows,          {Family::kSm90}, kWgmmaPass, &unembed_wgmma,        &wgmma,                         &why_not_wgmma,      "unembed_wgmma: strips of 16 rows for 64 tokens",          kWgmma,  &verify::check_unembed},
    {kSample,      kF32,   kF32,     1,                 kAnyRows,          kEverywhere,     kNoPass,    &sample,               kLittle,                        kAnyModel,           "best; sample: a cluster for each row",                    kOnly,   &verify::check_sample},
};
// clang-format on

}  // namespace

std::span<const KernelRow> kernel_rows() { return kRows; }

bool is_by_wgmma(const KernelRow& row) { return row.why_not == &why_not_wgmma; }

std::string name(const KernelRow& row) {
  std::string name = fmt::format("{}/{}", nibble::name(row.operation), nibble::name(row.weights));
  if (block_format_of(row)) name += fmt::format("/{}", nibble::name(row.activations));
  for (char& letter : name)
    if (letter == ' ') letter = '-';
  if (is_by_wgmma(row)) name += "/wgmma";
  if (row.pass.deals_out) name += "/dealt";
  if (row.from_rows == row.to_rows) return fmt::format("{}/{}", name, row.from_rows);
  if (row.to_rows < kAnyRows) return fmt::format("{}/{}-{}", name, row.from_rows, row.to_rows);
  return row.from_rows > 1 ? fmt::format("{}/{}-", name, row.from_rows) : name;
}

// One launch for routing and experts is made for one token or two, and there is room for so many tokens' sums of segments (workspace.cpp).
int most_rows(const KernelRow& row) {
  if (std::holds_alternative<Launch<RouteAndExpertsUpArgs>>(row.launcher)) return kOwnNorms;
  const auto launches = [&](auto launcher) {
    const auto* const held = std::get_if<decltype(launcher)>(&row.launcher);
    return held && *held == launcher;
  };
  return launches(&qkv_split) || launches(&project_split) ? kSplitTokens : kAnyRows;
}

Format format_of(BlockFormat format) {
  switch (format) {
    case BlockFormat::kMxfp8x2:
      return Format::kMxfp8x2;
    case BlockFormat::kMxfp8:
      return Format::kMxfp8;
    case BlockFormat::kMxfp4:
      break;
  }
  return Format::kMxfp4;
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
  std::erase_if(found,
                [&](const KernelRow* row) { return is_by_wgmma(*row) && !multiplies_by_wgmma(target); });
  return found;
}

std::vector<KernelCheck> kernel_checks(const CudaOptions& options) {
  const Target target = target_of(device_caps(), options);
  std::vector<KernelCheck> checks;
  for (const KernelRow* row : rows_with_code_for(target, kRows))
    checks.push_back({name(*row), [row, target] { return row->check(*row, target, {}); }});
  return checks;
}

GroupRoom group_room(const Config& config, int max_tokens, std::span<const KernelRow> rows) {
  GroupRoom room{0, 0};
  for (const KernelRow& row : rows) {
    if (row.operation != Operation::kRoute || row.from_rows > max_tokens) continue;
    // The number of groups grows with the number of tokens.
    const int groups = max_num_groups(std::min(row.to_rows, max_tokens), config.experts().count,
                                      config.experts_per_token, row.pass.columns);
    room.num_groups = std::max(room.num_groups, groups);
    room.num_pairs = std::max(room.num_pairs, groups * row.pass.columns);
  }
  return room;
}

}  // namespace nibble::cuda
