// What suits one processor better than another and changes no bit of a result: how a CPU's work is cut. The defaults were measured
// (docs/decisions/0010); `nibble tune` measures another machine.
#pragma once

namespace nibble {

struct CpuTuning {
  // Rows of weights that one item of work takes, whole strips, in a step of few tokens: less is shared out more evenly, more is read
  // in longer runs.
  int panel_rows{32};
  // In a step of kManyTokens or more: each item reads all tokens' activations, which then lie in a cache that the cores share.
  int large_panel_rows{96};
  // So many tokens that share a panel are multiplied by tiles, where the processor has them (AMX). 0: as the kernel table has it.
  int tile_from_tokens{0};

  bool operator==(const CpuTuning&) const = default;
};

inline constexpr int kManyTokens{64};
inline constexpr int kMinPanelRows{16};   // the widest strip; a multiple of it
inline constexpr int kMaxPanelRows{192};  // what arrays on the stack hold

}  // namespace nibble
