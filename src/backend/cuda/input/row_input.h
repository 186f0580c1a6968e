// The input of a step in device memory: one row per token.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// The same as kPageTokens of the host's headers, which kernels do not include.
inline constexpr int kPagePositions{32};

// The step's first kernel fills in what only the device knows.
struct alignas(16) RowInput {
  int32_t token;  // -1 - n: the token that the previous step chose for its output row n
  // -1 - i: the row is row i of a run that continues draft chain -1 - token of the previous step
  // (row_behind() of input/draft_slots.h)
  int32_t position;
  // Where this row's page tables begin in the step's page ids, minus their first_page: position p is in
  // page_ids[full_pages + p / kPagePositions].
  uint32_t full_pages, sliding_pages;
};

// Consecutive rows of one sequence, with consecutive positions.
struct TileInput {
  int32_t first_row, num_rows;  // up to kTileRows
};
inline constexpr int kTileRows{24};

// The path along which a row of a draft tree sees its last positions. Keys and values are stored in slots of
// the cache; in a chain of drafts, the slot of a row is its position.
struct RowPath {
  // Positions from `first` up to the row's own are on the path; the slot of an earlier position is the
  // position itself.
  int32_t first;
  uint32_t slots;  // position p of the path is in slot page_ids[slots + p]
};
inline constexpr int kNoPath{0x7FFFFFFF};  // RowPath::first of a row for which every slot is the position

struct StepInput {
  const RowInput* rows;      // [T]
  const TileInput* tiles;    // for attend_tiles()
  const uint32_t* page_ids;  // both page tables of every run, and the slots of the paths
  // [T], only for steps with trees: the slot for each row's key and value (-1: do not store them), and each
  // row's path. null: the slot of every row is its position.
  const int32_t* slots{nullptr};
  const RowPath* paths{nullptr};
};

}  // namespace nibble::cuda
