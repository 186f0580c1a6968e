// A GPU as a value: kernels are chosen and shaped from it alone, so that any chip can be planned for without having it.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::cuda {

// Chips that run the same code. They are told apart by equality or by sets, never by order: sm_120 is no larger Hopper, and
// instructions of sm_90a run on sm_90 alone.
enum class Family { kSm80, kSm86, kSm89, kSm90, kSm100, kSm120, kSm121 };
inline constexpr Family kFamilies[]{Family::kSm80,  Family::kSm86,  Family::kSm89, Family::kSm90,
                                    Family::kSm100, Family::kSm120, Family::kSm121};

int compute_capability_of(Family family);  // 90 for kSm90
std::string name(Family family);           // "sm_90"

// The properties as the driver tells them.
struct DeviceProperties {
  std::string name;
  int compute_capability{0};  // 90: sm_90
  int num_multiprocessors{0};
  size_t shared_bytes{0};  // per CTA, with opt-in
  size_t total_bytes{0};
  bool is_integrated{false};  // shares its memory with the host
  bool is_divided{false};     // MPS may run other programs' kernels beside one's own
};

// The features are those that the code has which runs there: sm_100 runs the PTX of sm_80 and so has none, whatever the chip could do.
struct DeviceCaps : DeviceProperties {
  Family family{Family::kSm80};
  bool has_bulk_copies{false}, has_clusters{false}, has_dependent_launch{false};
  bool has_block_products{false};  // ptx/block_mma.cuh; else their twins run
  bool has_wgmma{false};           // ptx/wgmma.cuh

  // Says whether this is a chip of that family itself, not one that runs its code for want of its own.
  bool is_of_family() const { return compute_capability == compute_capability_of(family); }
};

// A compute capability that is no family's takes the nearest family below it whose code is PTX or of its generation: that runs on
// later chips too. Throws InputError below 80.
DeviceCaps caps_of(const DeviceProperties& properties);
// The same for a program that has only the code of this compute capability for the chip (images.h).
DeviceCaps with_code_of(DeviceCaps caps, int compute_capability);

std::string describe(const DeviceCaps& caps);  // one line

// The speeds of a chip, for predictions (predict.h). Rates are those of one multiprocessor.
struct ChipSpeeds {
  double read_bandwidth{0};      // bytes per second: the best that a program was seen to read
  bool is_read_measured{false};  // false: what chips of its kind reach of their datasheet's figure
  double clock_hz{0};            // under load
  double products_per_clock{0};  // mma.sync.m16n8k16 of bfloat16, summed in float32
  size_t cache_bytes{0};         // L2
  const char* source{""};        // of the read bandwidth
};
ChipSpeeds known_speeds(std::string_view name);  // throws as known_gpu()

// A link joins cards of a kind: those of one host, or two GB10 by a cable. sum_seconds is how long NCCL takes, beside the bytes, to add up a
// row of the residual stream over 2, 4 or 8 cards.
inline constexpr int kCountsOfLinks[]{2, 4, 8};
struct ChipLink {
  double bandwidth{0};                              // bytes per second, one way; 0: not known
  double sum_seconds[std::size(kCountsOfLinks)]{};  // 0: not known
  bool is_measured{false};                          // between two cards; else, and of more cards, expected
  const char* source{""};
};
ChipLink known_link(std::string_view name);  // throws as known_gpu()

// A chip that nibble knows, by its own name ("gb10") or that of its family ("sm_121"). Throws InputError that lists the names.
DeviceCaps known_gpu(std::string_view name);
std::vector<std::string> known_gpu_names();

}  // namespace nibble::cuda
