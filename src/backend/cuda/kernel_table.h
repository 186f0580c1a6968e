// The kernel table: which kernel runs which operation, format and number of rows on which family of GPUs. Plain data, from which a plan
// (plan.h) is chosen at load.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/kernels.h"
#include "backend/kernel_check.h"
#include "model/weights.h"

namespace nibble::cuda {

// The families that a kernel is valid for. One with instructions of sm_90a or sm_120a names those and no others.
class Families {
 public:
  constexpr Families(std::initializer_list<Family> families) {
    for (const Family family : families) bits_ |= bit(family);
  }
  constexpr bool include(Family family) const { return (bits_ & bit(family)) != 0; }

 private:
  static constexpr unsigned bit(Family family) { return 1u << static_cast<unsigned>(family); }

  unsigned bits_{0};
};
inline constexpr Families kEverywhere{Family::kSm80,  Family::kSm86,  Family::kSm89, Family::kSm90,
                                      Family::kSm100, Family::kSm120, Family::kSm121},
    kNotHopper{Family::kSm80, Family::kSm86, Family::kSm89, Family::kSm100, Family::kSm120, Family::kSm121};

// A kernel passes over its weights for so many columns (tokens, or pairs of a token and an expert) at once.
struct Pass {
  int columns{0};           // 0: it has no weights
  bool takes_norm{false};   // of its input, which rms_norm has computed; else the kernel computes it
  bool leaves_parts{true};  // sums that another reads are in two parts (kernels.h)
  bool takes_image{false};  // multiplies activations that lie in an image (layout/image.h)
  bool deals_out{false};    // a CTA that has done its strips takes others (decode/dealt.cuh)
  bool makes_norm{false};   // computes the norm that it takes where nobody has
};
inline constexpr Pass kNoPass{}, kFewPass{kMaxColumns}, kNormPass{kMaxColumns, true},
    kDealtPass{kMaxColumns, false, true, false, true},
    kRouterPass{kMaxColumns, true, true, false, false, true},
    kRouterBatchPass{kBatchColumns, true, false, true, false, true}, kManyPass{kManyColumns, true, false},
    kBatchPass{kBatchColumns, true, false, true}, kWgmmaPass{kManyColumns, true, false, true},
    kWidePass{kMostColumns, true, false, true};

template <typename Args>
using Launch = void (*)(const LaunchContext&, const Args&);
template <typename Args>
using LaunchRows = void (*)(const LaunchContext&, int num_rows, const Args&);
using Launcher = std::variant<LaunchRows<EmbedArgs>, Launch<RmsNormArgs>, Launch<QkvArgs>, Launch<AppendArgs>,
                              LaunchRows<AttendArgs>, LaunchRows<AttendTilesArgs>, Launch<ProjectArgs>,
                              Launch<RouteArgs>, Launch<RouteAndExpertsUpArgs>, Launch<ExpertsUpArgs>,
                              Launch<ExpertsDownArgs>, Launch<UnembedArgs>, LaunchRows<SampleArgs>>;

// The largest cases that a check of a row runs. `nibble verify` runs all; on a GPU that is emulated the larger ones take minutes.
struct CaseLimits {
  int hidden{kAnyRows}, num_tokens{kAnyRows}, num_positions{kAnyRows};
};

struct KernelRow {
  Operation operation;
  Format weights;  // for append and attend: format of the KV cache
  Format activations;
  int from_rows, to_rows;  // rows of the step that it takes; for attend: of a sequence in the step
  Families families;
  Pass pass;
  Launcher launcher;
  // Bytes of dynamic shared memory that a CTA takes at least; null: few. A budget with less is refused.
  size_t (*shared_bytes)(const Config& config, Format weights);
  // Says why it cannot run a model of this configuration there; empty where it can. Null: it can run every one that is taken at all
  // (limits.h).
  std::string (*why_not)(const Config& config, const Target& target);
  const char* kernel;
  const char* reason;  // why this kernel, or the record that shows it
  KernelFinding (*check)(const KernelRow& row, const Target& target, const CaseLimits& limits);

  bool takes(int num_rows) const { return from_rows <= num_rows && num_rows <= to_rows; }

  template <typename Args>
  void launch(const LaunchContext& gpu, const Args& args) const {
    std::get<Launch<Args>>(launcher)(gpu, args);
  }
  template <typename Args>
  void launch(const LaunchContext& gpu, int num_rows, const Args& args) const {
    std::get<LaunchRows<Args>>(launcher)(gpu, num_rows, args);
  }
};
std::span<const KernelRow> kernel_rows();

// Says whether its products are those of ptx/wgmma.cuh.
bool is_by_wgmma(const KernelRow& row);

// "qkv/BF16", and "qkv/BF16/9-64" where it does not take every number of rows; "experts-up/MXFP4/MXFP8/17-" of one of several formats
// of activations.
std::string name(const KernelRow& row);

// The most rows that its kernel can take, which may be more than the table gives it: `nibble tune` tries it with others.
int most_rows(const KernelRow& row);

// The format of the activations of a row that multiplies them in this one; and the reverse, where it is one of block-scaled products of
// MXFP4 weights.
Format format_of(BlockFormat format);
std::optional<BlockFormat> block_format_of(const KernelRow& row);

// The rows that a family can run.
std::vector<const KernelRow*> rows_valid_for(Family family, std::span<const KernelRow> rows);
// Leaves out of these the rows by wgmma where wgmma does not multiply: in less shared memory, or in a program without code for sm_90a.
std::vector<const KernelRow*> rows_with_code_for(const Target& target, std::span<const KernelRow> rows);

// The checks of all rows that this GPU can run, as the options pretend it to be.
std::vector<KernelCheck> kernel_checks(const CudaOptions& options);

// Room that the groups of every step up to `max_tokens` take, whichever of the rows route it.
struct GroupRoom {
  int num_groups, num_pairs;  // the longest list of groups, and the most pairs in groups
};
GroupRoom group_room(const Config& config, int max_tokens, std::span<const KernelRow> rows);

}  // namespace nibble::cuda
