// Options of the CPU backend only; setup/ passes them to it beside the BackendOptions.
#pragma once

#include <string>

namespace nibble::cpu {

// The division of a step's work. It changes no bit of a result, but processors differ in what is fastest: the defaults were
// measured (docs/decisions/0010), and `nibble tune` measures another machine.
struct CpuTuning {
  // Rows of weights in an item of work, whole strips, in a step of few tokens. Small items balance the load, large ones read longer
  // runs of memory.
  int panel_rows{32};
  // The same in a step of kManyTokens or more, in which each item reads all tokens' activations from a shared cache.
  int large_panel_rows{96};
  // The number of tokens that share a panel from which on tiles multiply them, where the processor has tiles (AMX). 0: as in the
  // kernel table.
  int tile_from_tokens{0};

  bool operator==(const CpuTuning&) const = default;
};

inline constexpr int kManyTokens{64};
inline constexpr int kMinPanelRows{16};   // the rows of the widest strip, of which panels are multiples
inline constexpr int kMaxPanelRows{192};  // the size of arrays on the stack

// The activations that experts' MXFP4 weights are multiplied by. kDefault: int8 where it is faster, which kernels() tells.
enum class ExpertActivations { kDefault, kFloat, kInt8 };

struct CpuOptions {
  std::string isa{};  // "portable", "avx2", ...; empty: the best that the machine supports
  ExpertActivations expert_activations{ExpertActivations::kDefault};
  CpuTuning tuning{};
};

}  // namespace nibble::cpu
