#include "backend/cpu/packed_matrix.h"

#include <cstring>

#include "backend/cpu/isa/kernels.h"
#include "core/errors/check.h"
#include "core/files/mapped_file.h"

namespace nibble::cpu {
namespace {

constexpr uint32_t kLow{0x0F0F0F0F}, kHigh{0xF0F0F0F0};

size_t code_bytes(Format format) { return format == Format::kQ8_0 ? kBlock : kBlock / 2; }  // bytes per block
size_t scale_bytes(Format format) { return format == Format::kQ8_0 ? 2 : 1; }

uint32_t word_at(const void* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Moves nibble i to nibble 2i, for i = 0 to 3.
uint32_t spread(uint32_t nibbles) {
  nibbles = (nibbles | nibbles << 8) & 0x00FF00FF;
  return (nibbles | nibbles << 4) & 0x0F0F0F0F;
}

// Destination of one block of a row: 4-byte words, `stride` bytes apart.
struct Destination {
  uint8_t* words;
  ptrdiff_t stride;
  uint8_t* scale;
  void put(int word, uint32_t value) const { std::memcpy(words + word * stride, &value, sizeof value); }
};

// Packs an MXFP4 block with a separate scale. A word of `codes` has 8 elements, the first in its low nibble.
void pack_block(const uint8_t* codes, uint8_t scale, const Destination& to) {
  *to.scale = scale;
  for (int v = 0; v < 4; ++v) {
    const uint32_t word = word_at(codes + 4 * v);
    to.put(v, spread(word & 0xFFFF) | spread(word >> 16) << 4);
  }
}

// Packs ggml's MXFP4 block: a scale, then 16 bytes: elements 0-15 in the low, 16-31 in the high nibbles.
void pack_ggml_mxfp4(const uint8_t* block, const Destination& to) {
  *to.scale = block[0];
  for (int half = 0; half < 2; ++half) {
    const uint32_t first = word_at(block + 1 + 8 * half), second = word_at(block + 5 + 8 * half);
    to.put(half, (first & kLow) | (second & kLow) << 4);
    to.put(2 + half, (first >> 4 & kLow) | (second & kHigh));
  }
}

// Packs ggml's Q8_0 block: an IEEE half, then 32 int8.
void pack_q8_0(const uint8_t* block, const Destination& to) {
  std::memcpy(to.scale, block, 2);
  for (int w = 0; w < 8; ++w) to.put(w, word_at(block + 2 + 4 * w));
}

// Packs one strip of `matrix` block by block, so that the words of one block share cache lines for all rows.
void pack_strip(const Matrix& matrix, ptrdiff_t first_row, int strip_rows, uint8_t* codes, uint8_t* scales) {
  const auto num_blocks = matrix.cols / ptrdiff_t{kBlock};
  const Format format = matrix.format();
  const auto codes_step = static_cast<ptrdiff_t>(code_bytes(format)) * strip_rows,
             scales_step = static_cast<ptrdiff_t>(scale_bytes(format)) * strip_rows;
  const ptrdiff_t stride = ptrdiff_t{4} * strip_rows;
  const auto for_each_block = [&](const auto& pack) {
    for (ptrdiff_t block = 0; block < num_blocks; ++block)
      for (ptrdiff_t r = 0; r < strip_rows; ++r)
        pack(r, block,
             Destination{codes + block * codes_step + 4 * r, stride,
                         scales + block * scales_step + r * static_cast<ptrdiff_t>(scale_bytes(format))});
  };
  const Blocks* blocks = matrix.blocks();
  if (!blocks) {
    const Elements& elements = matrix.elements();
    const auto* from = static_cast<const uint8_t*>(elements.data);
    for_each_block([&](ptrdiff_t r, ptrdiff_t block, const Destination& to) {
      const ptrdiff_t index = (first_row + r) * num_blocks + block;
      pack_block(from + index * (kBlock / 2), elements.scales[index], to);
    });
    return;
  }
  const uint8_t* rows[kMaxStripRows];
  for (ptrdiff_t r = 0; r < strip_rows; ++r)
    rows[r] = reinterpret_cast<const uint8_t*>(
        row_of(*blocks, static_cast<size_t>(first_row + r), static_cast<size_t>(matrix.cols)).data());
  if (format == Format::kQ8_0)
    for_each_block(
        [&](ptrdiff_t r, ptrdiff_t block, const Destination& to) { pack_q8_0(rows[r] + 34 * block, to); });
  else if (blocks->type == GgmlType::kMxfp4Ollama)
    for_each_block([&](ptrdiff_t r, ptrdiff_t block, const Destination& to) {
      pack_block(rows[r] + 17 * block + 1, rows[r][17 * block], to);
    });
  else
    for_each_block([&](ptrdiff_t r, ptrdiff_t block, const Destination& to) {
      pack_ggml_mxfp4(rows[r] + 17 * block, to);
    });
}

// Releases the mapped pages of `num_rows` rows, from the first row of `matrix` on.
void release(const Matrix& matrix, size_t num_rows, bool is_mapped) {
  const auto cols = static_cast<size_t>(matrix.cols);
  if (!is_mapped) return;
  if (const Blocks* blocks = matrix.blocks()) {
    const size_t in_each = blocks->odd_rows ? num_rows / 2 : num_rows,
                 bytes = in_each * num_bytes(matrix.format(), cols);
    release_pages({blocks->rows, bytes});
    if (blocks->odd_rows) release_pages({blocks->odd_rows, bytes});
  } else {
    const Elements& elements = matrix.elements();
    const size_t num_blocks = num_rows * cols / kBlock;
    release_pages({static_cast<const std::byte*>(elements.data), num_blocks * kBlock / 2});
    release_pages({reinterpret_cast<const std::byte*>(elements.scales), num_blocks});
  }
}

PackedMatrix make_room(Format format, int rows, int cols, int num_matrices) {
  PackedMatrix packed{format, rows, cols, {}, num_matrices};
  packed.storage = Buffer::of_huge_pages(packed.num_blocks() * (code_bytes(format) + scale_bytes(format)) *
                                         static_cast<size_t>(num_matrices));
  return packed;
}

struct PackedRow {
  PackedMatrix& packed;
  int matrix{0}, row{0};
};

// Packs all rows of `matrix` into to.packed, from row to.row of to.packed on.
void pack_rows(const Matrix& matrix, const PackedRow& to, int strip_rows, ThreadPool& pool) {
  NIBBLE_CHECK(is_packable(matrix, strip_rows) && to.row % strip_rows == 0,
               "{} rows of {} to row {}, {} in a strip", matrix.rows, name(matrix.format()), to.row,
               strip_rows);
  const size_t strip_blocks = static_cast<size_t>(strip_rows) * static_cast<size_t>(matrix.cols) / kBlock;
  const PackedMatrix& packed = to.packed;
  auto* codes = const_cast<uint8_t*>(packed.codes(to.matrix));
  auto* scales = const_cast<uint8_t*>(packed.scales(to.matrix));
  pool.for_each(matrix.rows / strip_rows, [&](ptrdiff_t strip, int) {
    const size_t block = static_cast<size_t>(to.row / strip_rows + strip) * strip_blocks;
    pack_strip(matrix, strip * strip_rows, strip_rows, codes + block * code_bytes(packed.format),
               scales + block * scale_bytes(packed.format));
  });
}

}  // namespace

size_t PackedMatrix::num_blocks() const {
  return static_cast<size_t>(rows) * static_cast<size_t>(cols) / kBlock;
}

const uint8_t* PackedMatrix::codes(int matrix) const {
  return storage.as<uint8_t>() + static_cast<size_t>(matrix) * num_blocks() * code_bytes(format);
}

const uint8_t* PackedMatrix::scales(int matrix) const {
  return codes(num_matrices) + static_cast<size_t>(matrix) * num_blocks() * scale_bytes(format);
}

bool is_packable(const Matrix& matrix, int strip_rows) {
  const Format format = matrix.format();
  return (format == Format::kMxfp4 || format == Format::kQ8_0) && matrix.rows % strip_rows == 0;
}

PackedMatrix pack(const Matrix& first, int num_matrices, int strip_rows, bool is_mapped, ThreadPool& pool) {
  PackedMatrix packed = make_room(first.format(), first.rows, first.cols, num_matrices);
  const ExpertMatrices matrices{first, {}};
  for (int which = 0; which < num_matrices; ++which)
    pack_rows(matrices.matrix(which), {.packed = packed, .matrix = which}, strip_rows, pool);
  release(first, static_cast<size_t>(first.rows) * static_cast<size_t>(num_matrices), is_mapped);
  return packed;
}

PackedMatrix pack_below(std::span<const Matrix> parts, int strip_rows, bool is_mapped, ThreadPool& pool) {
  int rows = 0;
  for (const Matrix& part : parts) rows += part.rows;
  PackedMatrix packed = make_room(parts[0].format(), rows, parts[0].cols, 1);
  int to_row = 0;
  for (const Matrix& part : parts) {
    NIBBLE_CHECK(part.format() == packed.format && part.cols == packed.cols, "{} x {} of {}", part.rows,
                 part.cols, name(part.format()));
    pack_rows(part, {.packed = packed, .row = to_row}, strip_rows, pool);
    release(part, static_cast<size_t>(part.rows), is_mapped);
    to_row += part.rows;
  }
  return packed;
}

}  // namespace nibble::cpu
