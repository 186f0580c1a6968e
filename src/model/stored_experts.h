// Reads experts as a file stores them (StoredExperts), in any type and order.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "model/weights.h"

namespace nibble {

// Returns the bytes of an expert of `rows` rows in the file, without the scales that belong to U8 codes.
size_t expert_bytes(const ExpertTensor& tensor, size_t rows, size_t cols);
// The expert's bytes in the file, without scales that are in a tensor of their own.
std::span<const std::byte> codes_of(const ExpertTensor& tensor, size_t expert, size_t rows, size_t cols);
bool has_foreign(const StoredExperts& stored);  // whether any row is a ForeignMatrix's

// Returns pointers to `count` ranges of `bytes` bytes that follow each other without gaps.
std::vector<const std::byte*> consecutive(const void* first, size_t bytes, int count);

// Describes experts that are views of a file: MXFP4 elements, or blocks. nullopt for any other matrix.
std::optional<StoredExperts> stored_experts(const Matrix& first, int num_experts);
// Return views of the same experts; nullopt if their type, their order or an adapter's update needs a copy.
std::optional<Elements> as_elements(const StoredExperts& stored, const Matrix& first);
std::optional<Blocks> as_blocks(const StoredExperts& stored, const Matrix& first);

// Maximum number of rows per call of read_rows(). If the matrix is stored transposed in 16-bit elements, a
// call reads a whole cache line (32 rows) of each column.
inline constexpr int kExpertRows{32};

struct ExpertRows {
  int expert, first_row, count;  // first_row is a multiple of kExpertRows, count at most kExpertRows
};
// Decodes rows of an expert with `first.rows` rows of `first.cols` elements to float32, one after another,
// and adds adapters' updates.
void read_rows(const StoredExperts& stored, const Matrix& first, const ExpertRows& which,
               std::span<float> to);

}  // namespace nibble
