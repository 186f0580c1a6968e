#include "backend/cuda/memory/pack.h"

#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "backend/cuda/chip/run_kernel.cuh"
#include "backend/cuda/ptx/block_codes.h"
#include "core/numbers/random.h"

namespace nibble::cuda {
namespace {

constexpr int kThreads{256};

__device__ uint16_t stored_at(const PackBf16Args& args, int row, int col) {
  return args.from[size_t{1} * row * args.stored_cols + args.first_col + col];
}

unsigned num_ctas_for(size_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

// A tile takes four mma instructions (strips.h). Each thread writes the A registers (16 bytes) of one lane
// for one of these instructions, number `part`.
__global__ void pack_bf16_kernel(const PackBf16Args args, size_t count) {
  const size_t i = size_t{1} * blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const int lane = static_cast<int>(i % 32), part = static_cast<int>(i / 32 % 4);
  const size_t strip_tile = i / 128;
  const int tile = static_cast<int>(strip_tile % args.to.num_tiles);
  const int strip = static_cast<int>(strip_tile / args.to.num_tiles) + args.first_row / kStripRows;
  const int g = lane / 4, t = lane % 4;
  const int row = strip * kStripRows + g - args.first_row,
            col = tile * kTileCols + 32 * (part / 2) + 8 * t + 4 * (part % 2);
  uint16_t values[8];  // registers a0 to a3, each with two values
  for (int i = 0; i < 8; ++i) {
    const int of_row = row + 8 * (i / 2 % 2), of_col = col + 2 * (i / 4) + i % 2;
    values[i] = of_row < args.rows && of_col < args.cols ? stored_at(args, of_row, of_col) : 0;
  }
  auto* to = const_cast<uint8_t*>(args.to.data) + size_t{1} * strip * args.to.strip_bytes +
             tile * tile_bytes(Layout::kBf16) + part * 512 + lane * 16;
  memcpy(to, values, 16);
}

// Returns a word of a lane's MXFP4 codes in the bit order of strips.h. The word has four columns of row
// lane / 4 (`upper`) and of row lane / 4 + 8 (`lower`).
__device__ uint32_t word_of(const uint8_t (&upper)[4], const uint8_t (&lower)[4]) {
  const auto half = [](uint32_t a0, uint32_t a1, uint32_t a2, uint32_t other_a3) {
    const auto bit = [](uint32_t code, int i) { return code >> i & 1; };
    const auto rest = [](uint32_t code) { return code & 7; };
    return bit(a0, 3) << 15 | rest(a0) << 6 | bit(a1, 3) << 12 | rest(a1) << 3 | bit(a2, 3) << 9 | rest(a2) |
           bit(other_a3, 1) << 14 | bit(other_a3, 0) << 13 | bit(other_a3, 3) << 11 | bit(other_a3, 2) << 10;
  };
  return half(upper[0], lower[0], upper[2], lower[3]) | half(upper[1], lower[1], upper[3], lower[2]) << 16;
}

struct PackedLane {
  uint8_t* strip_data;
  int tile, lane;
};

// Writes one lane's MXFP4 codes of a tile. Every fourth lane also writes the scales of its two rows.
// code_at(row in strip, column) returns a code, scale_at(row in strip, block) a scale.
template <typename CodeAt, typename ScaleAt>
__device__ void write_lane(const PackedLane& to, int* largest_scale, const CodeAt& code_at,
                           const ScaleAt& scale_at) {
  const int g = to.lane / 4, t = to.lane % 4;
  uint32_t words[4];
  for (int group = 0; group < 2; ++group)
    for (int m = 0; m < 2; ++m) {
      uint8_t upper[4], lower[4];
      for (int c = 0; c < 4; ++c) {
        const int col = to.tile * kTileCols + 32 * group + 8 * t + 4 * m + c;
        upper[c] = code_at(g, col);
        lower[c] = code_at(g + 8, col);
      }
      words[2 * group + m] = word_of(upper, lower);
    }
  uint8_t* at = to.strip_data + to.tile * tile_bytes(Layout::kMxfp4);
  memcpy(at + to.lane * 16, words, 16);
  if (t != 0) return;
  for (int b = 0; b < 4; ++b) {
    const uint8_t scale = scale_at(g + 8 * (b % 2), to.tile * 2 + b / 2);
    at[kTileCodeBytes + g * 4 + b] = static_cast<uint8_t>(scale + kScaleOffset);
    if (scale > kLargestScale) atomicMax(largest_scale, int{scale});
  }
}

__global__ void pack_mxfp4_kernel(const PackMxfp4Args args, size_t count) {
  const size_t i = size_t{1} * blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const int lane = static_cast<int>(i % 32);
  const size_t strip_tile = i / 32;
  const int tile = static_cast<int>(strip_tile % args.to.num_tiles);
  const int strip = static_cast<int>(strip_tile / args.to.num_tiles % args.to.num_strips);
  const size_t matrix = strip_tile / args.to.num_tiles / args.to.num_strips;
  const auto stored_row = [&](int row) {
    if (args.order == RowOrder::kAsStored) return strip * kStripRows + row;
    return 2 * (strip * 8 + row % 8) + row / 8;
  };
  const auto place_of = [&](int row, int col, int per_byte) {
    return (matrix * args.stored_rows + args.first_row + row) * (args.stored_cols / per_byte) +
           (args.first_col + col) / per_byte;
  };
  write_lane(
      {args.data + matrix * args.to.matrix_bytes() + size_t{1} * strip * args.to.strip_bytes, tile, lane},
      args.largest_scale,
      [&](int row, int col) -> uint8_t {
        const int stored = stored_row(row);
        if (stored >= args.rows || col >= args.cols) return 0;
        const uint8_t byte = args.codes[place_of(stored, col, 2)];
        return col % 2 ? byte >> 4 : byte & 15;
      },
      [&](int row, int block) -> uint8_t {
        const int stored = stored_row(row);
        return stored < args.rows && block < args.cols / 32 ? args.scales[place_of(stored, 32 * block, 32)]
                                                            : 127;
      });
}

__device__ float value_at(const PackBf16Args& args, int row, int col) {
  if (row >= args.rows || col >= args.cols) return 0;
  return __uint_as_float(uint32_t{stored_at(args, row, col)} << 16);
}

// Returns a block's E8M0 scale code (formats/mxfp4.h): the biased exponent of the block's largest magnitude,
// minus 2 (4 = 2^2 is the largest power of two in E2M1), but at least 0.
__device__ uint8_t block_scale(const PackBf16Args& args, int row, int block) {
  float largest = 0;
  for (int c = 0; c < 32; ++c) largest = fmaxf(largest, fabsf(value_at(args, row, block * 32 + c)));
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23);
  return static_cast<uint8_t>(max(exponent - 2, 0));
}

// Returns the E2M1 code of the nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6; ties go to the even code.
__device__ uint8_t nearest_code(float value) {
  const float magnitude = fabsf(value);
  const uint8_t sign = signbit(value) ? 8 : 0;
  const uint8_t code = magnitude <= 0.25f   ? 0
                       : magnitude < 0.75f  ? 1
                       : magnitude <= 1.25f ? 2
                       : magnitude < 1.75f  ? 3
                       : magnitude <= 2.5f  ? 4
                       : magnitude < 3.5f   ? 5
                       : magnitude <= 5.0f  ? 6
                                            : 7;
  return sign | code;
}

// Each CTA computes a row's E4M3 scale. The bits of magnitudes are compared as integers, so a NaN counts as
// the largest.
__global__ void row_scale_kernel(const PackBf16Args args) {
  __shared__ unsigned largest;
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  const int row = static_cast<int>(blockIdx.x);
  unsigned own = 0;
  for (int col = static_cast<int>(threadIdx.x); col < args.stored_cols; col += kThreads)
    own = max(own, args.from[size_t{1} * row * args.stored_cols + col] & 0x7FFFu);
  atomicMax(&largest, own);
  __syncthreads();
  if (threadIdx.x != 0) return;
  const float scale = __fdiv_rn(__uint_as_float(largest << 16), 448.0f);
  const_cast<float*>(args.to.row_scales)[args.first_row + row] = scale == 0 ? 1.0f : scale;
}

// Each thread writes a lane's 16 E4M3 codes of one group of 32 columns; a tile has two groups (strips.h).
__global__ void quantise_e4m3_kernel(const PackBf16Args args, size_t count) {
  const size_t i = size_t{1} * blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const int lane = static_cast<int>(i % 32), group = static_cast<int>(i / 32 % 2);
  const size_t strip_tile = i / 64;
  const int tile = static_cast<int>(strip_tile % args.to.num_tiles);
  const int strip = static_cast<int>(strip_tile / args.to.num_tiles) + args.first_row / kStripRows;
  uint32_t words[4];
  for (int word = 0; word < 4; ++word) {
    const int row = strip * kStripRows + lane / 4 + 8 * (word % 2) - args.first_row;
    const int col = tile * kTileCols + 32 * group + 8 * (lane % 4) + 4 * (word / 2);
    const float scale = row < args.rows ? args.to.row_scales[args.first_row + row] : 1.0f;
    const auto code = [&](int c) -> uint32_t {
      return __nv_cvt_float_to_fp8(__fdiv_rn(value_at(args, row, col + c), scale), __NV_SATFINITE, __NV_E4M3);
    };
    const auto half = [](uint32_t first, uint32_t second) {
      return (first & 0x80) << 8 | (first & 0x7F) << 4 | (second & 0x80) << 4 | (second & 0x70) << 8 |
             (second & 0x0F);
    };
    words[word] = half(code(0), code(2)) | half(code(1), code(3)) << 16;
  }
  memcpy(const_cast<uint8_t*>(args.to.data) + size_t{1} * strip * args.to.strip_bytes +
             tile * tile_bytes(Layout::kE4m3) + group * 512 + lane * 16,
         words, 16);
}

__global__ void quantise_mxfp4_kernel(const PackBf16Args args, size_t count) {
  const size_t i = size_t{1} * blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const int lane = static_cast<int>(i % 32);
  const size_t strip_tile = i / 32;
  const int tile = static_cast<int>(strip_tile % args.to.num_tiles);
  const int strip = static_cast<int>(strip_tile / args.to.num_tiles) + args.first_row / kStripRows;
  const auto row_of = [&](int row) { return strip * kStripRows + row - args.first_row; };
  // Scales of the tile's first block in rows lane / 4 and lane / 4 + 8, then of its second block in these
  // rows.
  uint8_t scales[4];
  for (int b = 0; b < 4; ++b) scales[b] = block_scale(args, row_of(lane / 4 + 8 * (b % 2)), tile * 2 + b / 2);
  write_lane(
      {const_cast<uint8_t*>(args.to.data) + size_t{1} * strip * args.to.strip_bytes, tile, lane},
      args.largest_scale,
      [&](int row, int col) {
        const uint8_t scale = scales[(row >= 8) + 2 * (col % kTileCols / 32)];
        return nearest_code(ldexpf(value_at(args, row_of(row), col), 127 - scale));
      },
      [&](int row, int block) { return scales[(row >= 8) + 2 * (block % 2)]; });
}

__global__ void fill_kernel(const FillArgs args) {
  const size_t i = size_t{1} * blockIdx.x * kThreads + threadIdx.x;
  if (i < args.num_words) args.to[i] = (random_bits(args.seed, args.first_word + i) & args.mask) + args.base;
}

__global__ void widen_kernel(const WidenArgs args) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i < args.count) args.to[i] = __uint_as_float(uint32_t{args.from[i]} << 16);
}

int strips_of(int rows) { return (rows + kStripRows - 1) / kStripRows; }

}  // namespace

void pack(Stream stream, const PackBf16Args& args) {
  const size_t count = size_t{128} * strips_of(args.rows) * args.to.num_tiles;
  run_kernel(stream, "packing weights", pack_bf16_kernel, {num_ctas_for(count), kThreads}, args, count);
}
void pack(Stream stream, const PackMxfp4Args& args) {
  const size_t count = size_t{32} * args.num_matrices * args.to.num_strips * args.to.num_tiles;
  run_kernel(stream, "packing weights", pack_mxfp4_kernel, {num_ctas_for(count), kThreads}, args, count);
}
void quantise(Stream stream, const PackBf16Args& args) {
  constexpr const char* kWhat{"quantising weights"};
  const size_t tiles = size_t{1} * strips_of(args.rows) * args.to.num_tiles;
  if (args.to.layout == Layout::kE4m3) {
    run_kernel(stream, kWhat, row_scale_kernel, {static_cast<unsigned>(args.rows), kThreads}, args);
    run_kernel(stream, kWhat, quantise_e4m3_kernel, {num_ctas_for(64 * tiles), kThreads}, args, 64 * tiles);
  } else {
    run_kernel(stream, kWhat, quantise_mxfp4_kernel, {num_ctas_for(32 * tiles), kThreads}, args, 32 * tiles);
  }
}
void pack_codes(Stream stream, const PackBf16Args& args) {
  const size_t count = size_t{64} * strips_of(args.rows) * args.to.num_tiles;
  run_kernel(stream, "packing weights", quantise_e4m3_kernel, {num_ctas_for(count), kThreads}, args, count);
}
void fill(Stream stream, const FillArgs& args) {
  run_kernel(stream, "making weights", fill_kernel, {num_ctas_for(args.num_words), kThreads}, args);
}
void widen(Stream stream, const WidenArgs& args) {
  run_kernel(stream, "reading vectors", widen_kernel,
             {num_ctas_for(static_cast<size_t>(args.count)), kThreads}, args);
}

}  // namespace nibble::cuda
