// The input of a step in device memory: one row for each token.
#pragma once

#include <cstdint>

namespace nibble::cuda {

inline constexpr int kPagePositions{
    32};  // the same as kPageTokens of the host's headers, which kernels do not include

struct alignas(16) RowInput {
  int32_t
      token;  // -1 - n: the one that the step before chose for its output row n; the step's first kernel puts it here
  int32_t position;
  uint32_t full_pages,
      sliding_pages;  // where this row's page tables begin in the step's page ids, less their first_page:
                      //   position p is in page_ids[full_pages + p / kPagePositions]
};

// Neighbouring rows of one sequence, whose positions follow each other.
struct TileInput {
  int32_t first_row, num_rows;  // up to kTileRows
};
inline constexpr int kTileRows{24};

struct StepInput {
  const RowInput* rows;      // [T]
  const TileInput* tiles;    // those of attend_tiles()
  const uint32_t* page_ids;  // both page tables of every run
};

}  // namespace nibble::cuda
