// A GPU as a value. Kernels are chosen and shaped from it alone, so nibble can plan for a chip that is not
// present.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/chip/target.h"

namespace nibble::cuda {

struct CudaOptions;

// The properties that the driver reports.
struct DeviceProperties {
  std::string name;
  int compute_capability{0};  // 90: sm_90
  int num_multiprocessors{0};
  size_t shared_bytes{0};  // per CTA, with opt-in
  size_t total_bytes{0};
  bool is_integrated{false};  // shares its memory with the host
  bool is_divided{false};     // MPS may run other programs' kernels at the same time
};

// The features are those of the code that runs on the chip: sm_100 runs the PTX of sm_80 and so has none,
// whatever the chip can do.
struct DeviceCaps : DeviceProperties {
  Family family{Family::kSm80};
  bool has_bulk_copies{false}, has_clusters{false}, has_dependent_launch{false};
  bool has_block_products{false};  // ptx/block_mma.cuh; otherwise their twins run
  bool has_wgmma{false};           // ptx/wgmma.cuh

  // Whether the chip itself is of this family, rather than a chip without a family that runs the family's
  // code.
  bool is_of_family() const { return compute_capability == compute_capability_of(family); }
};

// A compute capability without a family of its own gets the nearest family below it whose code is PTX or of
// the same generation: that code runs on later chips too. Throws InputError below 80.
DeviceCaps caps_of(const DeviceProperties& properties);
// Returns the caps for a program whose code for the chip is that of this compute capability only (images.h).
DeviceCaps with_code_of(DeviceCaps caps, int compute_capability);

std::string describe(const DeviceCaps& caps);  // one line

// Throws InputError if the chip supports no budget, or less than the options request.
Target target_of(const DeviceCaps& caps, const CudaOptions& options);

// The speeds of a chip, for predictions (predict/predict.h). Rates are per SM.
struct ChipSpeeds {
  double read_bandwidth{0};  // bytes per second: the fastest that any program was seen to read
  // false: estimated from the share of the datasheet's figure that similar chips reach
  bool is_read_measured{false};
  double clock_hz{0};            // under load
  double products_per_clock{0};  // mma.sync.m16n8k16 of bfloat16, summed in float32
  const char* source{""};        // source of the read bandwidth
};
ChipSpeeds known_speeds(std::string_view name);  // throws like known_gpu()

// The link between cards of one kind: in one host, or two GB10 by cable. sum_seconds: the time NCCL takes for
// an all-reduce of one row of the residual stream over 2, 4 or 8 cards, in addition to the transfer of the
// bytes.
inline constexpr int kCountsOfLinks[]{2, 4, 8};
struct ChipLink {
  double bandwidth{0};                              // bytes per second, one way; 0: unknown
  double sum_seconds[std::size(kCountsOfLinks)]{};  // 0: unknown
  bool is_measured{false};  // true: measured between two cards; for more cards the figures are expected ones
  const char* source{""};
};
ChipLink known_link(std::string_view name);  // throws like known_gpu()

// Returns a chip that nibble knows, by its own name ("gb10") or that of its family ("sm_121"). Otherwise
// throws InputError with the known names.
DeviceCaps known_gpu(std::string_view name);
std::vector<std::string> known_gpu_names();

}  // namespace nibble::cuda
