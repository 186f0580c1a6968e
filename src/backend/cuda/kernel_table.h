// The kernel table lists which kernel runs an operation in a format, for a number of rows, on a family of
// GPUs. The table is plain data. When a model is loaded, its plan (plan.h) is chosen from the table.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention/args.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/experts/args.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/sample/args.h"
#include "backend/tuned_steps.h"
#include "model/weights.h"

namespace nibble::cuda {

template <typename Enum>
class EnumSet {
 public:
  constexpr EnumSet(std::initializer_list<Enum> values) {
    for (const Enum value : values) bits_ |= bit(value);
  }
  constexpr bool include(Enum value) const { return (bits_ & bit(value)) != 0; }
  constexpr bool intersect(EnumSet other) const { return (bits_ & other.bits_) != 0; }

 private:
  static constexpr unsigned bit(Enum value) { return 1u << static_cast<unsigned>(value); }

  unsigned bits_{0};
};

// Families on which a kernel is valid. wgmma kernels are valid only on Hopper. Block-scaled kernels are valid
// on all families, because chips without block-scaled instructions emulate them in software.
using Families = EnumSet<Family>;
inline constexpr Families kEverywhere{Family::kSm80,  Family::kSm86,  Family::kSm89, Family::kSm90,
                                      Family::kSm100, Family::kSm120, Family::kSm121},
    kHopper{Family::kSm90},
    kNotHopper{Family::kSm80, Family::kSm86, Family::kSm89, Family::kSm100, Family::kSm120, Family::kSm121};

// The instructions by which a kernel multiplies matrices. A plan uses kernels of mma.sync and of at most one
// other engine, wgmma or block-scaled mma. The kernels of that other engine replace mma.sync kernels for the
// same operation, weights and numbers of rows.
enum class MatrixEngine {
  kAny,          // the kernel can be part of any plan
  kMma,          // mma.sync
  kWgmma,        // wgmma or, for few tokens, mma.sync; both read images (layout/activations.h)
  kBlockScaled,  // block-scaled mma; KernelRow::activations is the format of the activations
};

// How a kernel reads its weights and activations, and stores its sums. A pass is one reading of the weights.
struct Pass {
  int columns{0};           // tokens, or pairs of token and expert, that share a pass; 0: reads no weights
  bool takes_norm{false};   // whether the kernel reads a norm that another launch computed
  bool leaves_parts{true};  // whether the kernel stores each sum in two parts, which the next kernel adds
  bool takes_image{false};  // whether the kernel reads activations from an image (layout/activations.h)
  bool deals_out{false};    // whether fast CTAs take more strips than slow ones (dense/dealt.cuh)
  bool makes_norm{false};   // whether the kernel can also compute the norm, for itself and for later kernels
};
inline constexpr Pass kFewPass{.columns = kMaxColumns};
inline constexpr Pass kNormPass{.columns = kMaxColumns, .takes_norm = true};
inline constexpr Pass kDealtPass{.columns = kMaxColumns, .deals_out = true};
inline constexpr Pass kRouterPass{.columns = kMaxColumns, .takes_norm = true, .makes_norm = true};
inline constexpr Pass kManyPass{.columns = kManyColumns, .takes_norm = true, .leaves_parts = false};
inline constexpr Pass kRouterBatchPass{.columns = kBatchColumns,
                                       .takes_norm = true,
                                       .leaves_parts = false,
                                       .takes_image = true,
                                       .makes_norm = true};
constexpr Pass pass_of_images(int columns) {
  return {.columns = columns, .takes_norm = true, .leaves_parts = false, .takes_image = true};
}
inline constexpr Pass kBatchPass = pass_of_images(kBatchColumns);
inline constexpr Pass kWgmmaPass = pass_of_images(kManyColumns);
inline constexpr Pass kWidePass = pass_of_images(kMostColumns);

template <typename Args>
using Launch = void (*)(const LaunchContext&, const Args&);
template <typename Args>
using LaunchRows = void (*)(const LaunchContext&, int num_rows, const Args&);
using Launcher = std::variant<LaunchRows<EmbedArgs>, Launch<RmsNormArgs>, Launch<QkvArgs>, Launch<AppendArgs>,
                              LaunchRows<AttendArgs>, LaunchRows<AttendTilesArgs>, Launch<ProjectArgs>,
                              Launch<RouteArgs>, Launch<RouteAndExpertsUpArgs>, Launch<ExpertsUpArgs>,
                              Launch<ExpertsDownArgs>, Launch<UnembedArgs>, LaunchRows<SampleArgs>>;

struct KernelRow {
  Operation operation{};
  Format weights{};  // for append and attend: the format of the KV cache
  // Row counts of steps in which a plan uses the kernel; attend: rows of a sequence.
  int from_rows{1}, to_rows{kAnyRows};
  MatrixEngine engine{MatrixEngine::kAny};
  // Formats of weights for which the table has this row, if not all formats of its operation.
  EnumSet<Format> only{Format::kF32, Format::kBf16, Format::kE4m3, Format::kMxfp4};
  Families families{kEverywhere};
  Format activations{Format::kBf16};
  Pass pass{};
  Launcher launcher{};
  int max_rows{kAnyRows};  // largest number of rows that the kernel can take; the limit for `nibble tune`
  // Returns the bytes of dynamic shared memory that a CTA needs at least; null: it needs none. A plan with a
  // smaller budget is rejected.
  size_t (*shared_bytes)(const Config& config, Format weights){nullptr};
  // Returns why the kernel cannot run the model; empty if it can. Null: the kernel runs every model that
  // limits.h accepts.
  std::string (*why_not)(const Config& config, const Target& target){nullptr};
  const char* kernel{""};
  // Why this kernel was chosen, or a document that shows it.
  const char* reason{"the only one of its format"};

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

// Returns the name of a table row. Examples: "qkv/BF16/3-8" for steps of 3 to 8 rows; "qkv/BF16/wgmma/9-64"
// for wgmma; "experts-up/MXFP4/MXFP8/17-" for block-scaled products in steps of 17 or more rows.
std::string name(const KernelRow& row);

// format_of() returns the Format that corresponds to a BlockFormat. block_format_of() returns the BlockFormat
// of a table row's activations; empty unless the engine of the table row is kBlockScaled.
Format format_of(BlockFormat format);
std::optional<BlockFormat> block_format_of(const KernelRow& row);

std::vector<const KernelRow*> rows_valid_for(Family family, std::span<const KernelRow> rows);
// Returns the table rows that the target can run. wgmma kernels need the largest budget of shared memory
// (Target::budget) and code compiled for sm_90a.
std::vector<const KernelRow*> rows_with_code_for(const Target& target, std::span<const KernelRow> rows);

// The memory that groups of pairs need: enough for every step of up to `max_tokens` tokens, whichever table
// row routes the step.
struct GroupRoom {
  int num_groups, num_pairs;  // largest number of groups of a step, and of pairs that these groups can hold
};
GroupRoom group_room(const Config& config, int max_tokens, std::span<const KernelRow> rows,
                     std::span<const TunedSteps> tuned_steps = {});

}  // namespace nibble::cuda
