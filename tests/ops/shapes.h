// The edge shapes with which every kernel row is run: at the end of a tile, a panel, a page or a window, one
// less and one more.
#pragma once

namespace nibble::shapes {

// Tiles have 1, 2 or 4 tokens, blocks of tokens 24. MXFP4 blocks have 32 columns, KV pages 32 positions.
inline constexpr int kTokens[]{1, 7, 8, 9, 31, 32, 33, 127, 128, 129, 1000};

// Columns of a contraction. kOddCols are not multiples of 32: only matrices in BF16 may have such rows.
inline constexpr int kBlockCols[]{32, 64, 160, 224, 512, 544, 2880};
inline constexpr int kOddCols[]{2, 40, 100};

inline constexpr int kRows[]{1, 3, 4, 5, 33};

// Positions to which a row attends, including its own.
inline constexpr int kWindows[]{1, 16, 31, 32, 33, 100, 128};

inline constexpr int kNumSequences[]{1, 2, 3, 5, 8, 16};

}  // namespace nibble::shapes
