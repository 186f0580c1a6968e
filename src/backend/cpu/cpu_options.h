// Options that only the CPU backend has, passed in addition to BackendOptions.
#pragma once

#include <string>

namespace nibble::cpu {

// How a step's work is divided; results are the same bits for all values. The defaults were measured
// (docs/decisions/0010); `nibble tune` finds the fastest values for another machine.
struct CpuTuning {
  // Weight rows per work item in steps of fewer than kManyTokens tokens. Small items balance the load; large
  // ones read longer runs of memory.
  int panel_rows{32};
  // Weight rows per item in larger steps, where all items read all tokens' activations from a shared cache.
  int large_panel_rows{96};
  // AMX tiles multiply panels of at least this number of tokens. 0: as in the kernel table.
  int tile_from_tokens{0};

  bool operator==(const CpuTuning&) const = default;
};

inline constexpr int kManyTokens{64};
inline constexpr int kMinPanelRows{16};   // the rows of the widest strip; panels are multiples of it
inline constexpr int kMaxPanelRows{192};  // size of stack arrays

// Activations that experts' MXFP4 weights are multiplied by. kDefault: int8 if it is faster on this machine.
enum class ExpertActivations { kDefault, kFloat, kInt8 };

struct CpuOptions {
  std::string isa{};  // "portable", "avx2", ...; empty: the best that the machine supports
  ExpertActivations expert_activations{ExpertActivations::kDefault};
  CpuTuning tuning{};
};

}  // namespace nibble::cpu
