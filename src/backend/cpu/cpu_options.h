// Options of the CPU backend only; setup/ passes them in addition to the BackendOptions.
#pragma once

#include <string>

namespace nibble::cpu {

// How a step's work is divided. No bit of a result depends on it, but the fastest setting depends on the
// processor: the defaults were measured (docs/decisions/0010), and `nibble tune` measures another machine.
struct CpuTuning {
  // Weight rows per work item, in whole strips, in a step of few tokens. Small items balance the load; large
  // ones read longer runs of memory.
  int panel_rows{32};
  // As panel_rows, for a step of kManyTokens or more tokens, in which each item reads all tokens' activations
  // from a shared cache.
  int large_panel_rows{96};
  // Minimum tokens per panel from which tiles multiply them, if the processor has tiles (AMX). 0: as in the
  // kernel table.
  int tile_from_tokens{0};

  bool operator==(const CpuTuning&) const = default;
};

inline constexpr int kManyTokens{64};
inline constexpr int kMinPanelRows{16};   // the rows of the widest strip; panels are multiples of it
inline constexpr int kMaxPanelRows{192};  // size of stack arrays

// The activations that experts' MXFP4 weights are multiplied by. kDefault: int8 if it is faster; kernels()
// reports the choice.
enum class ExpertActivations { kDefault, kFloat, kInt8 };

struct CpuOptions {
  std::string isa{};  // "portable", "avx2", ...; empty: the best that the machine supports
  ExpertActivations expert_activations{ExpertActivations::kDefault};
  CpuTuning tuning{};
};

}  // namespace nibble::cpu
