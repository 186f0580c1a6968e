#include "backend/cuda/caps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/error.h"

namespace nibble::cuda {
namespace {

// `code`: the compute capability whose code the family runs (cmake/Cuda.cmake lists what is compiled). Code of sm_80 is also there as
// PTX, and so it is what chips without code of their own run.
struct FamilyRow {
  Family family;
  int compute_capability, code;
};
constexpr int kPortableCode{80};
constexpr FamilyRow kFamilyRows[]{
    {Family::kSm80, 80, 80},    {Family::kSm86, 86, 80},   {Family::kSm89, 89, 80},
    {Family::kSm90, 90, 90},    {Family::kSm100, 100, 80}, {Family::kSm120, 120, 120},
    {Family::kSm121, 121, 121},
};

const FamilyRow& row_of(Family family) {
  return *std::find_if(std::begin(kFamilyRows), std::end(kFamilyRows),
                       [&](const FamilyRow& row) { return row.family == family; });
}

const FamilyRow& row_for(const DeviceProperties& properties) {
  const FamilyRow* nearest = nullptr;
  for (const FamilyRow& row : kFamilyRows) {
    if (row.compute_capability == properties.compute_capability) return row;
    if (row.code == kPortableCode && row.compute_capability < properties.compute_capability) nearest = &row;
  }
  if (!nearest)
    throw InputError("{} is of compute capability {}.{}: the CUDA backend takes 8.0 and later",
                     properties.name, properties.compute_capability / 10, properties.compute_capability % 10);
  return *nearest;
}

// From vendors' datasheets; memory in units of 1e9 bytes, as it is sold. The first chip of a family stands for it.
struct ChipRow {
  const char *name, *product;
  int compute_capability, num_multiprocessors;
  int shared_kilobytes, gigabytes;
  bool is_integrated{false};
};
constexpr ChipRow kChips[]{
    {"gb10", "NVIDIA GB10", 121, 48, 99, 128, true},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 120, 170, 99, 32},
    {"pro6000", "NVIDIA RTX PRO 6000 Blackwell", 120, 188, 99, 96},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 89, 128, 99, 24},
    {"l40s", "NVIDIA L40S", 89, 142, 99, 48},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 86, 82, 99, 24},
    {"a10", "NVIDIA A10", 86, 72, 99, 24},
    {"a100", "NVIDIA A100 80 GB", 80, 108, 163, 80},
    {"h100", "NVIDIA H100 80 GB", 90, 132, 227, 80},
    {"h200", "NVIDIA H200", 90, 132, 227, 141},
    {"b200", "NVIDIA B200", 100, 148, 227, 180},
};

}  // namespace

int compute_capability_of(Family family) { return row_of(family).compute_capability; }

std::string name(Family family) { return fmt::format("sm_{}", compute_capability_of(family)); }

DeviceCaps caps_of(const DeviceProperties& properties) {
  const FamilyRow& row = row_for(properties);
  DeviceCaps caps{properties};
  caps.family = row.family;
  const bool has_newer_code = row.code == 90 || row.code == 120 || row.code == 121;
  caps.has_bulk_copies = caps.has_clusters = caps.has_dependent_launch = has_newer_code;
  caps.has_block_products = row.code == 120 || row.code == 121;
  return caps;
}

std::string describe(const DeviceCaps& caps) {
  std::string text = fmt::format("{} (sm_{}", caps.name, caps.compute_capability);
  if (!caps.is_of_family()) text += fmt::format(", which runs as {}", name(caps.family));
  text += fmt::format("), {} multiprocessors, {} KB of shared memory per CTA", caps.num_multiprocessors,
                      caps.shared_bytes >> 10);
  if (caps.has_bulk_copies) text += ", bulk copies";
  if (caps.has_clusters) text += ", clusters";
  if (caps.has_dependent_launch) text += ", dependent launches";
  if (caps.has_block_products) text += ", block-scaled products";
  return text;
}

DeviceCaps known_gpu(std::string_view name) {
  for (const ChipRow& chip : kChips)
    if (name == chip.name || name == fmt::format("sm_{}", chip.compute_capability))
      return caps_of({chip.product, chip.compute_capability, chip.num_multiprocessors,
                      static_cast<size_t>(chip.shared_kilobytes) * 1024,
                      static_cast<size_t>(chip.gigabytes) * 1'000'000'000, chip.is_integrated});
  throw InputError("--gpu '{}': known are {}", name, fmt::join(known_gpu_names(), ", "));
}

std::vector<std::string> known_gpu_names() {
  std::vector<std::string> names;
  for (const ChipRow& chip : kChips) names.emplace_back(chip.name);
  for (const Family family : kFamilies) names.push_back(nibble::cuda::name(family));
  return names;
}

}  // namespace nibble::cuda
