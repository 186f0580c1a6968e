// The loop over strips of isa/kernels.h, for vectors of any width. Included like tile.h, and in an unnamed namespace for the
// same reason.
//
// `Simd` is a struct of static functions: Floats and Ints of kStripRows lanes; zero, broadcast, store, mul, fma, to_float;
// unpack(p) makes the 8 vectors of doubled weights + 12 of a block; scale(p) the float32 of kStripRows E8M0 bytes, NaN of 255;
// dot(weights, x) a block sum; kTileTokens is how many tokens share an unpacked block. Where tokens are better taken in pairs
// there is dot_pair(weights, x, y) in its place, and OfOneToken, which does the same for the last of an odd number.
//
// Bytes: 4.25 bits a weight, once for a tile of tokens; a strip's codes (20b: 23 KB) stay in L1 while the others pass by.
#pragma once

#include "backend/cpu/isa/kernels.h"

namespace nibble::cpu {
namespace {

// How far ahead codes are asked for: the hardware reads on within a page of 4 KB, not into the next one.
constexpr ptrdiff_t kPrefetchBytes{2048};

template <class Simd, int num_tokens>
inline void strip_tile(const StripArgs& args, int strip, int token) {
  constexpr ptrdiff_t kCodeBytes{Simd::kStripRows * kBlock / 2};
  const ptrdiff_t num_blocks = args.cols / kBlock;
  const uint8_t* codes = args.codes + strip * num_blocks * kCodeBytes;
  const uint8_t* scales = args.scales + strip * num_blocks * Simd::kStripRows;
  typename Simd::Floats sums[num_tokens];
  for (int t = 0; t < num_tokens; ++t) sums[t] = Simd::zero();
  for (ptrdiff_t block = 0; block < num_blocks; ++block, codes += kCodeBytes, scales += Simd::kStripRows) {
    if (token == 0)
      for (ptrdiff_t line = 0; line < kCodeBytes; line += 64)
        __builtin_prefetch(codes + kPrefetchBytes + line);
    const auto weights = Simd::unpack(codes);
    const auto scale = Simd::scale(scales);
    const auto x = [&](int t) -> const Q8Block& { return args.x[token + t][block]; };
    const auto add = [&](int t, typename Simd::Ints block_sum) {
      sums[t] =
          Simd::fma(Simd::to_float(block_sum), Simd::mul(scale, Simd::broadcast(x(t).half_scale)), sums[t]);
    };
    if constexpr (requires { typename Simd::OfOneToken; }) {
      for (int t = 0; t < num_tokens; t += 2) {
        const auto pair = Simd::dot_pair(weights, x(t), x(t + 1));
        add(t, pair.first);
        add(t + 1, pair.second);
      }
    } else {
      for (int t = 0; t < num_tokens; ++t) add(t, Simd::dot(weights, x(t)));
    }
  }
  float* y = args.y + token * args.y_stride + ptrdiff_t{strip} * Simd::kStripRows - args.first_row;
  for (int t = 0; t < num_tokens; ++t) Simd::store(y + t * args.y_stride, sums[t]);
}

// All tokens, in tiles of num_tokens, the rest in tiles of half as many.
template <class Simd, int num_tokens>
inline void strip_tokens(const StripArgs& args, int strip, int token) {
  for (; token + num_tokens <= args.num_tokens; token += num_tokens)
    strip_tile<Simd, num_tokens>(args, strip, token);
  if constexpr (num_tokens == 2 && requires { typename Simd::OfOneToken; })
    strip_tokens<typename Simd::OfOneToken, 1>(args, strip, token);
  else if constexpr (num_tokens > 1)
    strip_tokens<Simd, num_tokens / 2>(args, strip, token);
}

template <class Simd>
inline void strips(const StripArgs& args) {
  const int end = (args.first_row + args.num_rows) / Simd::kStripRows;
  for (int strip = args.first_row / Simd::kStripRows; strip < end; ++strip)
    strip_tokens<Simd, Simd::kTileTokens>(args, strip, 0);
}

}  // namespace
}  // namespace nibble::cpu
