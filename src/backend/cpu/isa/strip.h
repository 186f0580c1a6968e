// The loop over strips (isa/kernels.h) for vectors of any width. The unnamed namespace gives each file that
// includes this header its own copy. Every tile of tokens reads all weights (4.25 or 8.5 bits each); a
// strip's codes (20b: 23 or 46 KB) stay in L1.
//
// `Strip` is one format in one instruction set. Floats and Ints have kStripRows lanes; unpack(p) converts a
// block's kCodeBytes bytes to vectors of weights; scale(p) converts its kScaleBytes bytes to float32, times 2
// if unpack() does not double the weights; dot(weights, x) computes a block sum; kTileTokens tokens share an
// unpacked block.
// A Strip that multiplies tokens in pairs has dot_pair(weights, x, y). If the number of tokens is odd,
// Strip::OfOneToken multiplies the last one.
#pragma once

#include "backend/cpu/isa/kernels.h"

namespace nibble::cpu {
namespace {

// The loop prefetches codes at this distance ahead of the block that it reads. The hardware prefetcher alone
// would stop at the end of each 4 KB page.
constexpr ptrdiff_t kPrefetchBytes{2048};

template <class Strip, int num_tokens>
inline void strip_tile(const StripArgs& args, int strip, int token) {
  constexpr ptrdiff_t kCodeBytes{Strip::kCodeBytes}, kScaleBytes{Strip::kScaleBytes};
  const ptrdiff_t num_blocks = args.cols / kBlock;
  const uint8_t* codes = args.codes + strip * num_blocks * kCodeBytes;
  const uint8_t* scales = args.scales + strip * num_blocks * kScaleBytes;
  typename Strip::Floats sums[num_tokens];
  for (int t = 0; t < num_tokens; ++t) sums[t] = Strip::zero();
  for (ptrdiff_t block = 0; block < num_blocks; ++block, codes += kCodeBytes, scales += kScaleBytes) {
    if (token == 0)
      for (ptrdiff_t line = 0; line < kCodeBytes; line += 64)
        __builtin_prefetch(codes + kPrefetchBytes + line);
    const auto weights = Strip::unpack(codes);
    const auto scale = Strip::scale(scales);
    const auto x = [&](int t) -> const Q8Block& { return args.x[token + t][block]; };
    const auto add = [&](int t, typename Strip::Ints block_sum) {
      sums[t] = Strip::fma(Strip::to_float(block_sum), Strip::mul(scale, Strip::broadcast(x(t).half_scale)),
                           sums[t]);
    };
    if constexpr (requires { typename Strip::OfOneToken; }) {
      for (int t = 0; t < num_tokens; t += 2) {
        const auto pair = Strip::dot_pair(weights, x(t), x(t + 1));
        add(t, pair.first);
        add(t + 1, pair.second);
      }
    } else {
      for (int t = 0; t < num_tokens; ++t) add(t, Strip::dot(weights, x(t)));
    }
  }
  float* y = args.y + token * args.y_stride + ptrdiff_t{strip} * Strip::kStripRows - args.first_row;
  for (int t = 0; t < num_tokens; ++t) Strip::store(y + t * args.y_stride, sums[t]);
}

// Processes tokens in tiles of num_tokens, and remaining tokens in tiles of half the size, and so on.
template <class Strip, int num_tokens>
inline void strip_tokens(const StripArgs& args, int strip, int token) {
  for (; token + num_tokens <= args.num_tokens; token += num_tokens)
    strip_tile<Strip, num_tokens>(args, strip, token);
  if constexpr (num_tokens == 2 && requires { typename Strip::OfOneToken; })
    strip_tokens<typename Strip::OfOneToken, 1>(args, strip, token);
  else if constexpr (num_tokens > 1)
    strip_tokens<Strip, num_tokens / 2>(args, strip, token);
}

template <class Strip>
inline void strips(const StripArgs& args) {
  const int end = (args.first_row + args.num_rows) / Strip::kStripRows;
  for (int strip = args.first_row / Strip::kStripRows; strip < end; ++strip)
    strip_tokens<Strip, Strip::kTileTokens>(args, strip, 0);
}

}  // namespace
}  // namespace nibble::cpu
