// Options of the CPU backend alone, in addition to BackendOptions.
#pragma once

#include <string>

namespace nibble::cpu {

// How a step's work is divided among threads. All values give results with the same bits. The defaults were
// measured (docs/decisions/0010); `nibble tune` finds the fastest values for another machine.
struct CpuTuning {
  // Weight rows per work item in steps of fewer than kManyTokens tokens. Small work items balance the load
  // among threads; large work items read longer contiguous parts of memory.
  int panel_rows{32};
  // Weight rows per work item in larger steps. Every item reads all activations from a shared cache: a few
  // large items read less than many small ones.
  int large_panel_rows{96};
  // AMX multiplies panels of at least this number of tokens. 0: the number in the kernel table.
  int tile_from_tokens{0};

  bool operator==(const CpuTuning&) const = default;
};

inline constexpr int kManyTokens{64};
inline constexpr int kMinPanelRows{16};   // rows of the widest strip; panels have a multiple of 16 rows
inline constexpr int kMaxPanelRows{192};  // bound of the arrays on the stack that hold a panel

// Type of activations for MXFP4 experts. kDefault means kInt8. If only portable kernels can run, it means
// kFloat, because these kernels are no faster with int8.
enum class ExpertActivations { kDefault, kFloat, kInt8 };

struct CpuOptions {
  std::string isa{};  // "portable", "avx2", ...; empty: the best set of the machine
  ExpertActivations expert_activations{ExpertActivations::kDefault};
  CpuTuning tuning{};
};

}  // namespace nibble::cpu
