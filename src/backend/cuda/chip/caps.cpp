#include "backend/cuda/chip/caps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/cuda/cuda_options.h"
#include "core/errors/error.h"

namespace nibble::cuda {
namespace {

// A family and the compute capability of the code that its GPUs run (`code`). cmake/Cuda.cmake lists what is
// compiled. The sm_80 code is also in the program as PTX, for GPUs without compiled code of their own.
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

const FamilyRow& row_of(Family family) { return *std::ranges::find(kFamilyRows, family, &FamilyRow::family); }

const FamilyRow& row_for(const DeviceProperties& properties) {
  const FamilyRow* nearest = nullptr;
  for (const FamilyRow& row : kFamilyRows) {
    if (row.compute_capability == properties.compute_capability) return row;
    if (row.code == kPortableCode && row.compute_capability < properties.compute_capability) nearest = &row;
  }
  if (!nearest)
    throw InputError("{} is of compute capability {}.{}: the CUDA backend needs 8.0 or later",
                     properties.name, properties.compute_capability / 10, properties.compute_capability % 10);
  return *nearest;
}

// A known chip. Sizes are from the vendor's datasheet, except the H200's memory, which its driver reports. A
// GB is 1e9 bytes. If known_gpu() gets a family's name (sm_89), it returns the family's first row of kChips.
struct ChipRow {
  const char *name, *product;
  int compute_capability, num_multiprocessors;
  int shared_kilobytes, gigabytes;
  ChipSpeeds speeds;
  bool is_integrated{false};
  ChipLink link{};
};

// Numbers of mma.sync.m16n8k16 instructions per SM and clock. kQuarter is for chips of sm_86, sm_89 and
// sm_12x other than GeForce. kThrottled is for GeForce chips, where products with float32 sums run at half
// that rate (flashinfer#3628: a 5060 Ti reaches 51 TFLOP/s of BF16, 102 of FP8; 3090:
// Don-Chad/ninfer-3090#17). kAmpereProducts follows from the A100's datasheet (312 TFLOP/s). It is assumed
// for the B200 too, which runs sm_80's code. kHopperProducts was measured by `nibble verify` on an H200. The
// clocks in kChips are the highest in the datasheets, or were seen under load (GB10: 2.41 to 2.48 GHz,
// ling-engine; 5090: kekzl/imp#606).
constexpr double kQuarter{0.25}, kThrottled{0.125}, kHopperProducts{0.64}, kAmpereProducts{0.5};
constexpr ChipSpeeds measured(double gigabytes, double gigahertz, double products, const char* source) {
  return {gigabytes * 1e9, true, gigahertz * 1e9, products, source};
}
// Speeds of a chip whose read bandwidth is an estimate: 0.88 to 0.93 of the bandwidth in its datasheet. The
// measured chips reach 0.91 to 0.96 of theirs.
constexpr ChipSpeeds expected(double gigabytes, double gigahertz, double products, const char* source) {
  return {gigabytes * 1e9, false, gigahertz * 1e9, products, source};
}
// Bandwidth of NVLink, and time of an NCCL all-reduce in a CUDA graph, measured with two H200. The times for
// 4 and 8 GPUs, and the figures of PCIe and ConnectX, are from sgl-project/sglang#22734 and #32479.
constexpr ChipLink kNvLink4{387e9, {12.7e-6, 16e-6, 20e-6}, true, "two H200 of one host"};
constexpr ChipLink kNvLink4OfOthers{
    kNvLink4.bandwidth, {12.7e-6, 16e-6, 20e-6}, false, "as two H200 of one host"};
constexpr ChipLink kPcie5{50e9, {20e-6, 30e-6, 45e-6}, false, "PCIe 5 x16"};
constexpr ChipLink kConnectX7{22e9, {31e-6, 0, 0}, false, "200 GbE"};
constexpr ChipRow kChips[]{
    {"gb10", "NVIDIA GB10", 121, 48, 99, 128,
     measured(262, 2.42, kQuarter, "dreamference/ling-engine, report M0"), true, kConnectX7},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 120, 170, 99, 32,
     measured(1674, 2.85, kThrottled, "Don-Chad/ninfer-3090#17"), false, kPcie5},
    {"pro6000", "NVIDIA RTX PRO 6000 Blackwell", 120, 188, 99, 96,
     expected(1674, 2.62, kQuarter, "as the RTX 5090, whose memory it has"), false, kPcie5},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 89, 128, 99, 24,
     measured(921, 2.52, kThrottled, "krrishnarraj/clpeak#106")},
    {"l40s", "NVIDIA L40S", 89, 142, 99, 48, expected(800, 2.52, kQuarter, "0.93 of 864")},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 86, 82, 99, 24,
     measured(854, 1.70, kThrottled, "ashalliants/ninfer-3090#50")},
    {"a10", "NVIDIA A10", 86, 72, 99, 24, expected(550, 1.70, kQuarter, "0.92 of 600")},
    {"a100", "NVIDIA A100 80 GB", 80, 108, 163, 80, expected(1800, 1.41, kAmpereProducts, "0.88 of 2039")},
    {"h100", "NVIDIA H100 80 GB", 90, 132, 227, 80,
     measured(3100, 1.98, kHopperProducts, "records/cuda-bench.jsonl: 3.08 to 3.12 TB/s"), false,
     kNvLink4OfOthers},
    {"h200", "NVIDIA H200", 90, 132, 227, 150,
     measured(4550, 1.98, kHopperProducts, "records/cuda-bench.jsonl: 4.51 to 4.64 TB/s"), false, kNvLink4},
    {"b200", "NVIDIA B200", 100, 148, 227, 180, expected(7300, 1.85, kAmpereProducts, "0.91 of 8000")},
};

// The family that a GPU gets if --shared-budget lowers its budget. The GPU then uses kernels and tuning of
// smaller chips. The family is sm_80 because every chip can run the sm_80 kernels.
constexpr Family kFamilyOfLimited{Family::kSm80};

const ChipRow& chip_of(std::string_view name) {
  for (const ChipRow& chip : kChips)
    if (name == chip.name || name == fmt::format("sm_{}", chip.compute_capability)) return chip;
  throw InputError("--gpu '{}': unknown; the known GPUs are {}", name, fmt::join(known_gpu_names(), ", "));
}

}  // namespace

int compute_capability_of(Family family) { return row_of(family).compute_capability; }

std::string name(Family family) { return fmt::format("sm_{}", compute_capability_of(family)); }

DeviceCaps caps_of(const DeviceProperties& properties) {
  const FamilyRow& row = row_for(properties);
  DeviceCaps caps{properties};
  caps.family = row.family;
  return with_code_of(std::move(caps), row.code);
}

DeviceCaps with_code_of(DeviceCaps caps, int compute_capability) {
  const bool is_newer = compute_capability == 90 || compute_capability == 120 || compute_capability == 121;
  caps.has_bulk_copies = caps.has_clusters = caps.has_dependent_launch = is_newer;
  caps.has_block_products = compute_capability == 120 || compute_capability == 121;
  caps.has_wgmma = compute_capability == 90;
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
  if (caps.is_divided) text += ", shared through MPS";
  return text;
}

DeviceCaps known_gpu(std::string_view name) {
  const ChipRow& chip = chip_of(name);
  return caps_of({chip.product, chip.compute_capability, chip.num_multiprocessors,
                  static_cast<size_t>(chip.shared_kilobytes) * 1024,
                  static_cast<size_t>(chip.gigabytes) * 1'000'000'000, chip.is_integrated});
}

// All chips with block-scaled instructions execute kQuarter of them per SM and clock: GeForce chips do not
// throttle these instructions (487 TFLOP/s of MXFP8 on a 5080, 2,019 of MXFP4 on a 5090, kekzl/imp#606).
ChipSpeeds known_speeds(std::string_view name) {
  ChipSpeeds speeds = chip_of(name).speeds;
  if (known_gpu(name).has_block_products) speeds.block_products_per_clock = kQuarter;
  return speeds;
}
ChipLink known_link(std::string_view name) { return chip_of(name).link; }

std::vector<std::string> known_gpu_names() {
  std::vector<std::string> names;
  for (const ChipRow& chip : kChips) names.emplace_back(chip.name);
  for (const Family family : kFamilies) names.push_back(nibble::cuda::name(family));
  return names;
}

std::string known_name_of(const DeviceProperties& properties) {
  const auto difference = [&](const ChipRow& chip) {
    return std::abs(chip.gigabytes - static_cast<double>(properties.total_bytes) / 1e9);
  };
  const ChipRow* found = nullptr;
  for (const ChipRow& chip : kChips)
    if (chip.compute_capability == properties.compute_capability &&
        chip.num_multiprocessors == properties.num_multiprocessors &&
        (!found || difference(chip) < difference(*found)))
      found = &chip;
  return found ? found->name : "";
}

Target target_of(const DeviceCaps& caps, const CudaOptions& options) {
  const std::optional<Budget> largest = largest_budget(caps.shared_bytes);
  if (!largest)
    throw InputError(
        "--backend cuda: {} has {} KB of shared memory per CTA and kernels need at least {}; try --backend "
        "cpu",
        caps.name, caps.shared_bytes >> 10, kilobytes(Budget::k99));
  Target target{caps.family,
                *largest,
                caps.num_multiprocessors,
                caps.has_clusters,
                caps.has_dependent_launch,
                caps.has_block_products,
                caps.has_wgmma};
  if (options.shared_budget) {
    const std::optional<Budget> forced = budget_of(*options.shared_budget);
    if (!forced) throw InputError("--shared-budget {}: it must be 99, 163 or 227", *options.shared_budget);
    if (*forced > *largest)
      throw InputError("--shared-budget {}: {} has {} KB of shared memory per CTA: at most {} is possible",
                       *options.shared_budget, caps.name, caps.shared_bytes >> 10, kilobytes(*largest));
    target.budget = *forced;
    if (*forced < *largest) target.family = kFamilyOfLimited;
  }
  if (options.num_multiprocessors) {
    if (*options.num_multiprocessors < 1 || *options.num_multiprocessors > caps.num_multiprocessors)
      throw InputError("--multiprocessors {}: {} has {}; it must be from 1 to that number",
                       *options.num_multiprocessors, caps.name, caps.num_multiprocessors);
    target.num_multiprocessors = *options.num_multiprocessors;
  }
  return target;
}

}  // namespace nibble::cuda
