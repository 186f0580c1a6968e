// A GPU as a value, which alone determines kernels and their shapes: nibble can plan for an absent chip.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/chip/family.h"

namespace nibble::cuda {

struct DeviceProperties {  // as the driver reports them
  std::string name;
  int compute_capability{0};  // 90: sm_90
  int num_multiprocessors{0};
  size_t shared_bytes{0};  // per CTA, with opt-in
  size_t total_bytes{0};
  bool is_integrated{false};  // shares its memory with the host
  bool is_divided{false};     // MPS may run other programs' kernels at the same time
};

// Features of the code that runs on the chip: sm_100 runs the PTX of sm_80 and so has none of its own.
struct DeviceCaps : DeviceProperties {
  Family family{Family::kSm80};
  bool has_bulk_copies{false}, has_clusters{false}, has_dependent_launch{false};
  bool has_block_products{false};  // ptx/block_mma.cuh; otherwise their twins run
  bool has_wgmma{false};           // ptx/wgmma.cuh

  // False for a chip without a family of its own, which runs the code of another family.
  bool is_of_family() const { return compute_capability == compute_capability_of(family); }
};

// A compute capability without a family gets the nearest family below it whose code runs on later chips: PTX,
// or of the same generation. Throws InputError below 80.
DeviceCaps caps_of(const DeviceProperties& properties);
// The caps for a program whose only code for the chip is of this compute capability (images.h).
DeviceCaps with_code_of(DeviceCaps caps, int compute_capability);

std::string describe(const DeviceCaps& caps);  // one line

// Speeds of a chip, for predictions (predict/predict.h). Rates are per SM.
struct ChipSpeeds {
  double read_bandwidth{0};      // bytes per second: the fastest that any program was seen to read
  bool is_read_measured{false};  // else estimated: similar chips' share of their datasheets' figures
  double clock_hz{0};            // under load
  double products_per_clock{0};  // mma.sync.m16n8k16 of bfloat16, summed in float32
  const char* source{""};        // source of the read bandwidth
};
ChipSpeeds known_speeds(std::string_view name);  // throws like known_gpu()

// Link between cards of one kind, in one host, or of two GB10 by cable. sum_seconds: NCCL's time for an
// all-reduce of one row of the residual stream over 2, 4 or 8 cards, without the transfer of the bytes.
inline constexpr int kCountsOfLinks[]{2, 4, 8};
struct ChipLink {
  double bandwidth{0};                              // bytes per second, one way; 0: unknown
  double sum_seconds[std::size(kCountsOfLinks)]{};  // 0: unknown
  bool is_measured{false};  // true: measured between two cards; for more cards the figures are expected ones
  const char* source{""};
};
ChipLink known_link(std::string_view name);  // throws like known_gpu()

// A chip by its own name ("gb10") or its family's ("sm_121"). Throws InputError with the known names.
DeviceCaps known_gpu(std::string_view name);
std::vector<std::string> known_gpu_names();

}  // namespace nibble::cuda
