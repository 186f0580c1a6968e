// The input of a step in device memory: one row for each token.
#pragma once

#include <cstdint>

namespace nibble::cuda {

inline constexpr int kPagePositions{
    32};  // the same as kPageTokens of the host's headers, which kernels do not include

// The step's first kernel fills in what only the device knows.
struct alignas(16) RowInput {
  int32_t token;  // -1 - n: the one that the step before chose for its output row n
  int32_t
      position;  // -1 - i: the row is number i of a run that goes on behind chain -1 - token of the step before (row_behind())
  uint32_t full_pages,
      sliding_pages;  // where this row's page tables begin in the step's page ids, less their first_page:
                      //   position p is in page_ids[full_pages + p / kPagePositions]
};

// Neighbouring rows of one sequence, whose positions follow each other.
struct TileInput {
  int32_t first_row, num_rows;  // up to kTileRows
};
inline constexpr int kTileRows{24};

// A row of a tree of drafts sees its last positions on this path. Keys and values lie in slots; in a chain each position has its own.
struct RowPath {
  int32_t
      first;  // positions from here up to the row's own are on the path; those before it are their own slots
  uint32_t slots;  // position p of the path is in slot page_ids[slots + p]
};
inline constexpr int kNoPath{0x7FFFFFFF};  // RowPath::first of a row that sees every position in its own slot

struct StepInput {
  const RowInput* rows;      // [T]
  const TileInput* tiles;    // those of attend_tiles()
  const uint32_t* page_ids;  // both page tables of every run, and the paths
  // [T], only for steps with trees: the slot that a row's key and value go to (-1: none), and its path. null: every position is its own slot.
  const int32_t* slots{nullptr};
  const RowPath* paths{nullptr};
};

}  // namespace nibble::cuda
