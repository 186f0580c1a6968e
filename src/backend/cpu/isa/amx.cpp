// AMX (Intel servers since Sapphire Rapids): one instruction multiplies 16 tokens by 16 weight rows over the
// 32 columns of a block. AVX-512 scales the block sums and adds them in the order of the other kernels, so
// the bits are the same. For fewer than kLeastTokens tokens the AVX-512 kernel is used. Three kinds of tiles:
//   A  16 tokens x 32 bytes: a block of int8 activations of each token, as stored
//   B  8 rows of 4 columns x 16 weight rows x 4 bytes: a block of a strip, Q8_0 as stored, MXFP4 as int8
//   C  16 tokens x 16 weight rows: block sums in int32
// Columns are taken in chunks of kChunk blocks, so that the activations of 16 tokens (22 KB) stay in L1. The
// product of an A and a B (8,192 multiply-adds) takes 30 clocks: 16 for the tile instruction, the rest for 48
// vector instructions and loads.
#include "backend/cpu/isa/kernels.h"

#if NIBBLE_X86
#include <immintrin.h>

namespace nibble::cpu {
namespace {

constexpr int kRows{16};            // rows in a strip
constexpr int kTile{16};            // tokens in a tile
constexpr int kLeastTokens{6};      // from this number of tokens on, tiles are faster than vector registers
constexpr ptrdiff_t kChunk{32};     // blocks in a chunk of columns
constexpr ptrdiff_t kMaxStrips{4};  // strips that are expanded together
constexpr ptrdiff_t kBlockBytes{kRows * kBlock};  // bytes of a block in the layout of B

struct TileConfig {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// Sets the shapes of the tile registers for num_tokens tokens: registers 0 to 3 hold tiles C, registers 4 and
// 5 hold tiles A, and registers 6 and 7 hold tiles B.
void configure(int num_tokens) {
  TileConfig config{};
  config.palette = 1;
  const auto set = [&config](int tile, int rows, int row_bytes) {
    config.rows[tile] = static_cast<uint8_t>(rows);
    config.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
  };
  for (int tile = 0; tile < 4; ++tile) set(tile, num_tokens, 4 * kRows);
  for (int tile = 4; tile < 6; ++tile) set(tile, num_tokens, kBlock);
  for (int tile = 6; tile < 8; ++tile) set(tile, kBlock / 4, 4 * kRows);
  asm volatile("" : : "r"(&config) : "memory");  // else GCC 12 assumes that the next line reads only 8 bytes
  _tile_loadconfig(&config);
}

struct Mxfp4 {
  static constexpr ptrdiff_t kCodeBytes{kBlockBytes / 2}, kScaleBytes{kRows};
  static constexpr auto kFew = &avx512_vnni::strip_mxfp4;

  static const int8_t* expand(const uint8_t* codes, ptrdiff_t num_blocks, int8_t* to) {
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
    const __m512i nibble = _mm512_set1_epi8(15);
    for (ptrdiff_t v = 0; v < 4 * num_blocks; ++v) {
      const __m512i word = _mm512_loadu_si512(codes + 64 * v);
      _mm512_store_si512(to + 128 * v, _mm512_shuffle_epi8(table, _mm512_and_si512(word, nibble)));
      _mm512_store_si512(to + 128 * v + 64,
                         _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(word, 4), nibble)));
    }
    return to;
  }
  // Returns 2^(e - 127) for each row's E8M0 code e. Code 0 gives a subnormal, and code 255 gives NaN
  // (avx2_strip.h explains how).
  static __m512 scale(const uint8_t* p) {
    const __m512i exponents = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m512 scale = _mm512_castsi512_ps(
        _mm512_max_epu32(_mm512_slli_epi32(exponents, 23), _mm512_set1_epi32(0x00400000)));
    return _mm512_fmadd_ps(scale, _mm512_setzero_ps(), scale);
  }
};

struct Q8_0 {
  static constexpr ptrdiff_t kCodeBytes{kBlockBytes}, kScaleBytes{2 * kRows};
  static constexpr auto kFew = &avx512_vnni::strip_q8_0;

  static const int8_t* expand(const uint8_t* codes, ptrdiff_t, int8_t*) {
    return reinterpret_cast<const int8_t*>(codes);
  }
  static __m512 scale(const uint8_t* p) {
    const __m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_add_ps(scale, scale);
  }
};

template <bool is_whole>
struct Whole {
  static constexpr bool value{is_whole};
};

// Product of up to 16 tokens with one chunk of a strip. The first chunk stores y, later chunks add to it.
struct ProductArgs {
  const int8_t* weights;  // [num_blocks, kBlockBytes]: blocks in the layout of B
  const __m512* scales;   // [num_blocks]: the scales of 16 rows
  const Q8Block* x;       // the first token's first block in the chunk
  ptrdiff_t x_stride;     // bytes from one token to the next
  int num_tokens;
  ptrdiff_t num_blocks;
  bool is_first;
  float* y;
  ptrdiff_t y_stride;
  const uint8_t* ahead;  // product() prefetches a cache line per block from here on
};

// Intrinsics take tile numbers as immediates, so each tile number needs code of its own.
template <int which>
inline void multiply(const ProductArgs& args, ptrdiff_t block, int32_t* sums) {
  const int8_t* weights = args.weights + block * kBlockBytes;
  const Q8Block* x = args.x + block;
  if constexpr (which == 0) {
    _tile_zero(0);
    _tile_loadd(4, x, args.x_stride);
    _tile_loadd(6, weights, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_stored(0, sums, 64);
  } else if constexpr (which == 1) {
    _tile_zero(1);
    _tile_loadd(5, x, args.x_stride);
    _tile_loadd(7, weights, 64);
    _tile_dpbssd(1, 5, 7);
    _tile_stored(1, sums, 64);
  } else if constexpr (which == 2) {
    _tile_zero(2);
    _tile_loadd(4, x, args.x_stride);
    _tile_loadd(6, weights, 64);
    _tile_dpbssd(2, 4, 6);
    _tile_stored(2, sums, 64);
  } else {
    _tile_zero(3);
    _tile_loadd(5, x, args.x_stride);
    _tile_loadd(7, weights, 64);
    _tile_dpbssd(3, 5, 7);
    _tile_stored(3, sums, 64);
  }
}

// A product is issued kAhead blocks before its sums are loaded. This hides the latency of the tile
// instruction and of the store.
constexpr ptrdiff_t kAhead{3};

inline void multiply_any(const ProductArgs& args, ptrdiff_t block, int32_t (*sums)[kTile * kRows]) {
  switch (block % 4) {
    case 0:
      return multiply<0>(args, block, sums[0]);
    case 1:
      return multiply<1>(args, block, sums[1]);
    case 2:
      return multiply<2>(args, block, sums[2]);
    default:
      return multiply<3>(args, block, sums[3]);
  }
}

// Multiplies one chunk of a strip. `is_whole`: whether all 16 tokens are present. If false, the sums of the
// absent tokens stay zero.
template <bool is_whole>
inline void product(const ProductArgs& args) {
  alignas(64) int32_t sums[4][kTile * kRows];
  if constexpr (!is_whole) __builtin_memset(sums, 0, sizeof sums);
  __m512 y[kTile];
  const char* x[kTile];
  for (int t = 0; t < kTile; ++t) {
    const bool is_there = is_whole || t < args.num_tokens;
    y[t] = args.is_first || !is_there ? _mm512_setzero_ps() : _mm512_loadu_ps(args.y + t * args.y_stride);
    x[t] = reinterpret_cast<const char*>(args.x) + (is_there ? t : args.num_tokens - 1) * args.x_stride;
  }
  for (ptrdiff_t block = 0; block < kAhead && block < args.num_blocks; ++block)
    multiply_any(args, block, sums);
  for (ptrdiff_t block = 0; block < args.num_blocks; ++block) {
    if (block + kAhead < args.num_blocks) multiply_any(args, block + kAhead, sums);
    __builtin_prefetch(args.ahead + block * 64, 0, 2);
    const __m512 scale = args.scales[block];
    for (int t = 0; t < kTile; ++t) {
      const auto* q8 = reinterpret_cast<const Q8Block*>(x[t]) + block;
      y[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums[block % 4] + t * kRows)),
                             _mm512_mul_ps(scale, _mm512_set1_ps(q8->half_scale)), y[t]);
    }
  }
  for (int t = 0; t < kTile; ++t)
    if (is_whole || t < args.num_tokens) _mm512_storeu_ps(args.y + t * args.y_stride, y[t]);
}

template <class Format>
inline void strips(const StripArgs& args) {
  // The AVX-512 kernel (kFew) multiplies the last tile if it has fewer than kLeastTokens tokens. It
  // multiplies all tokens if their activations have no constant stride.
  ptrdiff_t stride = 0;
  int num_tiled = args.num_tokens;
  if (num_tiled >= kLeastTokens) {
    stride = reinterpret_cast<const char*>(args.x[1]) - reinterpret_cast<const char*>(args.x[0]);
    for (int t = 1; t < args.num_tokens; ++t)
      if (reinterpret_cast<const char*>(args.x[t]) - reinterpret_cast<const char*>(args.x[t - 1]) != stride)
        num_tiled = 0;
  }
  if (num_tiled % kTile < kLeastTokens) num_tiled -= num_tiled % kTile;
  if (num_tiled < args.num_tokens) {
    StripArgs few = args;
    few.x += num_tiled;
    few.y += num_tiled * args.y_stride;
    few.num_tokens -= num_tiled;
    Format::kFew(few);
    if (num_tiled == 0) return;
  }

  const ptrdiff_t num_blocks = args.cols / kBlock;
  const int num_whole = num_tiled - num_tiled % kTile;
  alignas(64) int8_t expanded[kMaxStrips][kChunk * kBlockBytes];
  __m512 scales[kMaxStrips][kChunk];
  const ptrdiff_t first_strip = args.first_row / kRows, end_strip = first_strip + args.num_rows / kRows;
  for (ptrdiff_t strip = first_strip; strip < end_strip; strip += kMaxStrips) {
    const ptrdiff_t num_strips = end_strip - strip < kMaxStrips ? end_strip - strip : kMaxStrips;
    for (ptrdiff_t first = 0; first < num_blocks; first += kChunk) {
      const ptrdiff_t count = num_blocks - first < kChunk ? num_blocks - first : kChunk;
      const int8_t* weights[kMaxStrips];
      for (ptrdiff_t s = 0; s < num_strips; ++s) {
        const ptrdiff_t block = (strip + s) * num_blocks + first;
        weights[s] = Format::expand(args.codes + block * Format::kCodeBytes, count, expanded[s]);
        for (ptrdiff_t b = 0; b < count; ++b)
          scales[s][b] = Format::scale(args.scales + (block + b) * Format::kScaleBytes);
      }
      asm volatile("" ::: "memory");  // tells GCC that tiles are loaded from these arrays
      // Each product prefetches a part of the next codes: of its strip's next chunk, or of the next strips.
      const bool is_last = first + count == num_blocks;
      const auto multiply_tile = [&](int token, auto is_whole) {
        for (ptrdiff_t s = 0; s < num_strips; ++s) {
          const ptrdiff_t next_block =
              is_last ? (strip + num_strips + s) * num_blocks : (strip + s) * num_blocks + first + count;
          product<decltype(is_whole)::value>(
              {weights[s], scales[s], args.x[token] + first, stride, num_tiled - token, count, first == 0,
               args.y + token * args.y_stride + (strip + s) * kRows - args.first_row, args.y_stride,
               args.codes + next_block * Format::kCodeBytes + token / kTile * kChunk * 64});
        }
      };
      if (num_whole > 0) configure(kTile);
      for (int token = 0; token < num_whole; token += kTile) multiply_tile(token, Whole<true>{});
      if (num_whole < num_tiled) {
        configure(num_tiled - num_whole);
        multiply_tile(num_whole, Whole<false>{});
      }
    }
  }
  _tile_release();
}

}  // namespace

namespace amx {
void strip_mxfp4(const StripArgs& args) { strips<Mxfp4>(args); }
void strip_q8_0(const StripArgs& args) { strips<Q8_0>(args); }
}  // namespace amx

}  // namespace nibble::cpu
#endif
