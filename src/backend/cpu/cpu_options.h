// Options of the CPU backend alone, in addition to BackendOptions.
#pragma once

#include <string>

namespace nibble::cpu {

// Division of a step's work. Results are the same bits for all values. The defaults were measured
// (docs/decisions/0010); `nibble tune` finds the fastest values for another machine.
struct CpuTuning {
  // Weight rows per work item in steps of fewer than kManyTokens tokens. Small work items balance the load
  // among threads; large work items read longer contiguous parts of memory.
  int panel_rows{32};
  // Weight rows per work item in larger steps, where all items read all activations from a shared cache.
  int large_panel_rows{96};
  // Number of tokens from which on AMX multiplies a panel. 0: the number in the kernel table.
  int tile_from_tokens{0};

  bool operator==(const CpuTuning&) const = default;
};

inline constexpr int kManyTokens{64};
inline constexpr int kMinPanelRows{16};   // rows of the widest strip; panels have a multiple of 16 rows
inline constexpr int kMaxPanelRows{192};  // bound of the arrays on the stack that hold a panel

// Type of activations for MXFP4 experts. kDefault: int8; kFloat if only portable kernels can run, which int8
// does not make faster.
enum class ExpertActivations { kDefault, kFloat, kInt8 };

struct CpuOptions {
  std::string isa{};  // "portable", "avx2", ...; empty: the best set of the machine
  ExpertActivations expert_activations{ExpertActivations::kDefault};
  CpuTuning tuning{};
};

}  // namespace nibble::cpu
