// Rows only; nothing here launches.
#include "backend/cuda/kernel_table.h"

#include <fmt/format.h>

#include <string_view>

#include "backend/cuda/device.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/verify/checks.h"

namespace nibble::cuda {
namespace {

constexpr const char* kOnly{"the only one of its format"};
constexpr const char* kStrips{"docs/decisions/0005"};  // alternatives that were measured
constexpr const char* kMany{"weights are read once for 64 tokens"};
constexpr Architectures kSince80{80, Architectures::kNewest};  // no instructions of one architecture alone
using enum Format;
using enum Operation;

// Every combination is called through the same launch function (kernels.h), which picks the kernel by layout and
// number of rows.
// clang-format off
constexpr KernelRow kRows[]{
    // operation     weights  act.   rows                        arch.     kernel                                             reason   check
    {kEmbed,       kBf16,   kF32,  1,              kAnyRows,   kSince80, "embed",                                           kOnly,   &verify::check_embed},
    {kRmsNorm,     kF32,    kF32,  kFewTokens + 1, kAnyRows,   kSince80, "normalise: a CTA for each row",                    kOnly,   &verify::check_normalise},
    {kQkv,         kBf16,   kBf16, 1,              kFewTokens, kSince80, "qkv: norm, strips of 16 rows",                    kStrips, &verify::check_qkv},
    {kQkv,         kE4m3,   kBf16, 1,              kFewTokens, kSince80, "qkv: norm, strips of 16 rows",                    kStrips, &verify::check_qkv},
    {kQkv,         kMxfp4,  kBf16, 1,              kFewTokens, kSince80, "qkv: norm, strips of 16 rows",                    kStrips, &verify::check_qkv},
    {kQkv,         kBf16,   kBf16, kFewTokens + 1, kAnyRows,   kSince80, "qkv_many: strips of 16 rows for 64 tokens",       kMany,   &verify::check_qkv},
    {kQkv,         kE4m3,   kBf16, kFewTokens + 1, kAnyRows,   kSince80, "qkv_many: strips of 16 rows for 64 tokens",       kMany,   &verify::check_qkv},
    {kQkv,         kMxfp4,  kBf16, kFewTokens + 1, kAnyRows,   kSince80, "qkv_many: strips of 16 rows for 64 tokens",       kMany,   &verify::check_qkv},
    {kAppend,      kBf16,   kF32,  2,              kAnyRows,   kSince80, "append: rope",                                    kOnly,   &verify::check_append},
    {kAppend,      kE4m3,   kF32,  2,              kAnyRows,   kSince80, "append: rope",                                    kOnly,   &verify::check_append},
    {kAttend,      kBf16,   kBf16, 1,              kMinTiledRows - 1, kSince80, "attend_rows: rope, append, split over pages",     kStrips, &verify::check_attend_rows},
    {kAttend,      kE4m3,   kBf16, 1,              kMinTiledRows - 1, kSince80, "attend_rows: rope, append, split over pages",     kStrips, &verify::check_attend_rows},
    {kAttend,      kBf16,   kBf16, kMinTiledRows,  kAnyRows,   kSince80, "attend_tiles: 24 rows of a sequence",             kMany,   &verify::check_attend_tiles},
    {kAttend,      kE4m3,   kBf16, kMinTiledRows,  kAnyRows,   kSince80, "attend_tiles: 24 rows of a sequence",             kMany,   &verify::check_attend_tiles},
    {kProject,     kBf16,   kBf16, 1,              kFewTokens, kSince80, "project: strips of 16 rows, residual",            kStrips, &verify::check_project},
    {kProject,     kE4m3,   kBf16, 1,              kFewTokens, kSince80, "project: strips of 16 rows, residual",            kStrips, &verify::check_project},
    {kProject,     kMxfp4,  kBf16, 1,              kFewTokens, kSince80, "project: strips of 16 rows, residual",            kStrips, &verify::check_project},
    {kProject,     kBf16,   kBf16, kFewTokens + 1, kAnyRows,   kSince80, "project_many: strips of 16 rows for 64 tokens",   kMany,   &verify::check_project},
    {kProject,     kE4m3,   kBf16, kFewTokens + 1, kAnyRows,   kSince80, "project_many: strips of 16 rows for 64 tokens",   kMany,   &verify::check_project},
    {kProject,     kMxfp4,  kBf16, kFewTokens + 1, kAnyRows,   kSince80, "project_many: strips of 16 rows for 64 tokens",   kMany,   &verify::check_project},
    {kRoute,       kBf16,   kBf16, 1,              1,          kSince80, "route_up: norm, top K, up, SwiGLU in one launch", kStrips, &verify::check_route_up},
    {kRoute,       kBf16,   kBf16, 2,              kFewTokens, kSince80, "route: norm, top K, groups of 8",                 kStrips, &verify::check_route},
    {kRoute,       kBf16,   kBf16, kFewTokens + 1, kAnyRows,   kSince80, "route_many: top K, groups of 64",                 kMany,   &verify::check_route},
    {kExpertsUp,   kMxfp4,  kBf16, 1,              1,          kSince80, "route_up: norm, top K, up, SwiGLU in one launch", kStrips, &verify::check_route_up},
    {kExpertsUp,   kMxfp4,  kBf16, 2,              kFewTokens, kSince80, "up: strips of 8 gates and their ups, SwiGLU",     kStrips, &verify::check_up},
    {kExpertsUp,   kMxfp4,  kBf16, kFewTokens + 1, kAnyRows,   kSince80, "up_many: the same for 64 pairs",                  kMany,   &verify::check_up},
    {kExpertsDown, kMxfp4,  kBf16, 1,              kFewTokens, kSince80, "down: strips of 16 rows, weighted",               kStrips, &verify::check_down},
    {kExpertsDown, kMxfp4,  kBf16, kFewTokens + 1, kAnyRows,   kSince80, "down_many: the same for 64 pairs",                kMany,   &verify::check_down},
    {kUnembed,     kBf16,   kBf16, 1,              kAnyRows,   kSince80, "unembed: norm, strips of 16 rows",                kStrips, &verify::check_unembed},
    {kUnembed,     kE4m3,   kBf16, 1,              kAnyRows,   kSince80, "unembed: norm, strips of 16 rows",                kStrips, &verify::check_unembed},
    {kUnembed,     kMxfp4,  kBf16, 1,              kAnyRows,   kSince80, "unembed: norm, strips of 16 rows",                kStrips, &verify::check_unembed},
    {kSample,      kF32,    kF32,  1,              kAnyRows,   kSince80, "best; sample: a cluster for each row",   kOnly,   &verify::check_sample},
};
// clang-format on

}  // namespace

std::span<const KernelRow> kernel_rows() { return kRows; }

std::string name(const KernelRow& row) {
  std::string name = fmt::format("{}/{}", nibble::name(row.operation), nibble::name(row.weights));
  for (char& letter : name)
    if (letter == ' ') letter = '-';
  if (row.from_rows == row.to_rows) return fmt::format("{}/{}", name, row.from_rows);
  if (row.to_rows < kAnyRows) return fmt::format("{}/{}-{}", name, row.from_rows, row.to_rows);
  return row.from_rows > 1 ? fmt::format("{}/{}-", name, row.from_rows) : name;
}

std::vector<const KernelRow*> rows_valid_for(int compute_capability, std::span<const KernelRow> rows) {
  std::vector<const KernelRow*> valid;
  for (const KernelRow& row : rows)
    if (row.architectures.include(compute_capability)) valid.push_back(&row);
  return valid;
}

std::vector<KernelCheck> kernel_checks() {
  std::vector<KernelCheck> checks;
  for (const KernelRow* row : rows_valid_for(device_info().compute_capability, kRows))
    checks.push_back({name(*row), [row] { return row->check(*row); }});
  return checks;
}

std::vector<KernelChoice> choose_kernels(Operation operation, Format weights, int compute_capability,
                                         std::span<const KernelRow> rows) {
  std::vector<KernelChoice> choices;
  for (const KernelRow* row : rows_valid_for(compute_capability, rows))
    if (row->operation == operation && row->weights == weights)
      choices.push_back({row->operation, std::string(nibble::name(row->weights)),
                         std::string(nibble::name(row->activations)), row->kernel, row->reason,
                         row->from_rows, row->to_rows});
  return choices;
}

std::vector<KernelChoice> choose_kernels(Operation operation, Format weights) {
  return choose_kernels(operation, weights, device_info().compute_capability, kRows);
}

}  // namespace nibble::cuda
