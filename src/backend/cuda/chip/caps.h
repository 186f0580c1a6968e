// Describes a GPU. Kernels are chosen by this description alone, so nibble can plan for a GPU that is absent.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/chip/target.h"

namespace nibble::cuda {

struct CudaOptions;

struct DeviceProperties {  // properties of a GPU, as reported by its driver
  std::string name;
  int compute_capability{0};  // 10 * major + minor: 90 for sm_90
  int num_multiprocessors{0};
  size_t shared_bytes{0};  // largest shared memory that a CTA can request (opt-in limit)
  size_t total_bytes{0};
  bool is_integrated{false};  // whether the GPU shares the host's memory
  bool is_divided{false};     // whether MPS may run kernels of several programs at the same time
};

// Properties of a GPU, and features of the code that it runs (the members has_...). The sm_80 code has none
// of these features.
struct DeviceCaps : DeviceProperties {
  Family family{Family::kSm80};
  bool has_bulk_copies{false}, has_clusters{false}, has_dependent_launch{false};
  bool has_block_products{false};  // block-scaled mma.sync (ptx/block_mma.cuh); false: emulated in software
  bool has_wgmma{false};           // instructions of ptx/wgmma.cuh

  // Returns whether the chip has a family of its own. If not, the chip runs the code of an older family.
  bool is_of_family() const { return compute_capability == compute_capability_of(family); }
};

// Returns the properties with the family of the chip and that family's features. A chip without a family of
// its own gets the family of the nearest older chip that runs sm_80 code: the PTX of that code runs on every
// later chip. Throws InputError if the compute capability is below 8.0.
DeviceCaps caps_of(const DeviceProperties& properties);
// Returns `caps` with the features of code for `compute_capability`, which the GPU must support (images.h).
DeviceCaps with_code_of(DeviceCaps caps, int compute_capability);

std::string describe(const DeviceCaps& caps);  // returns one line of text

// Returns the target for the chip and the options. Throws InputError if the chip's shared memory is too small
// for every budget, or if the options request more shared memory or multiprocessors than the chip has.
Target target_of(const DeviceCaps& caps, const CudaOptions& options);

// Speeds of a chip, used for predictions (predict/predict.h).
struct ChipSpeeds {
  double read_bandwidth{0};      // bytes per second of the whole chip; measured or estimated, see below
  bool is_read_measured{false};  // whether read_bandwidth was measured; false: estimated from the datasheet
  double clock_hz{0};            // core clock under load
  double products_per_clock{0};  // mma.sync.m16n8k16 instructions (bfloat16, float32 sums) per SM and clock
  const char* source{""};        // where read_bandwidth was measured or published
  // Block-scaled mma instructions per SM and clock, for every format; 0: the chip has none.
  double block_products_per_clock{0};
};
ChipSpeeds known_speeds(std::string_view name);  // throws InputError like known_gpu()

// A link between GPUs of the same model: within one host or, for the GB10, by a cable between machines.
// sum_seconds: time that NCCL takes for an all-reduce of one row of the residual stream over 2, 4 or 8 GPUs,
// apart from the time to transfer the row's bytes.
inline constexpr int kCountsOfLinks[]{2, 4, 8};
struct ChipLink {
  double bandwidth{0};                              // bytes per second in one direction; 0: unknown
  double sum_seconds[std::size(kCountsOfLinks)]{};  // one entry per count in kCountsOfLinks; 0: unknown
  bool is_measured{false};                          // true: measured for 2 GPUs, estimated for 4 and 8
  const char* source{""};
};
ChipLink known_link(std::string_view name);  // throws InputError like known_gpu()

// Returns the known chip with this name ("gb10"), or the first known chip of a family ("sm_121"). Throws
// InputError if the name is unknown.
DeviceCaps known_gpu(std::string_view name);
std::vector<std::string> known_gpu_names();
// Returns the name of the known chip with the compute capability and the number of multiprocessors of
// `properties`; "" if no known chip has both. Of several such chips (h100, h200), returns the one nearest in
// memory size.
std::string known_name_of(const DeviceProperties& properties);

}  // namespace nibble::cuda
