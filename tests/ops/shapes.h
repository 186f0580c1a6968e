// The edge shapes with which every kernel row is run: at the end of a tile, a panel, a page or a window, one
// less and one more.
#pragma once

namespace nibble::shapes {

// Numbers of tokens. The CPU's kernels multiply tiles of 1, 2, 4 or 8 tokens, and take 64 tokens
// (cpu::kTokenBlock) at a time. An MXFP4 block has 32 columns, a KV page 32 positions.
inline constexpr int kTokens[]{1, 7, 8, 9, 31, 32, 33, 127, 128, 129, 1000};

// Numbers of columns of a weight matrix. kOddCols are not multiples of 32: only BF16 matrices may have these.
inline constexpr int kBlockCols[]{32, 64, 160, 224, 512, 544, 2880};
inline constexpr int kOddCols[]{2, 40, 100};

inline constexpr int kRows[]{1, 3, 4, 5, 33};

// Positions to which a row attends, including its own.
inline constexpr int kWindows[]{1, 16, 31, 32, 33, 100, 128};

inline constexpr int kNumSequences[]{1, 2, 3, 5, 8, 16};

}  // namespace nibble::shapes
