// The input of a step in device memory: one row per token.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// Equals kPageTokens in the host's headers, which kernels do not include.
inline constexpr int kPagePositions{32};

// An optional index. Replaces std::optional in device code and in data that is copied to the device.
struct OptionalIndex {
  int32_t bits;  // the index; negative: none

  static constexpr OptionalIndex none() { return {-1}; }
  static constexpr OptionalIndex of(int index) { return {index}; }

  constexpr bool has_value() const { return bits >= 0; }
  constexpr int value() const { return bits; }  // call it only if has_value()
};

// The source of a row's token. The previous step may still be running when the host writes the row.
enum class TokenSource : uint32_t {
  kKnown = 0,                       // the host knows the token
  kOutputRow = uint32_t{1} << 30,   // the previous step chose the token for one of its output rows
  kDraftChain = uint32_t{1} << 31,  // a draft, or the token before a chain's drafts (row_of_chain())
};

// A token, or the index of the output row or draft chain that has it. embed replaces the index by the token.
struct TokenInput {
  static constexpr uint32_t kSourceBits{uint32_t{3} << 30};

  uint32_t bits;  // kSourceBits: the source; other bits: token, or index of output row or chain

  static constexpr TokenInput of(int token) { return of(TokenSource::kKnown, token); }
  static constexpr TokenInput of_output_row(int row) { return of(TokenSource::kOutputRow, row); }
  static constexpr TokenInput of_draft_chain(int chain) { return of(TokenSource::kDraftChain, chain); }
  static constexpr TokenInput of(TokenSource source, int index) {
    return {static_cast<uint32_t>(source) | static_cast<uint32_t>(index)};
  }

  constexpr TokenSource source() const { return static_cast<TokenSource>(bits & kSourceBits); }
  constexpr int index() const { return static_cast<int>(bits & ~kSourceBits); }
  // Returns the token of a known row. The source kKnown is 0, so there are no bits to remove.
  constexpr int id() const { return static_cast<int>(bits); }
};

struct alignas(16) RowInput {
  TokenInput token;
  // With source kDraftChain, until embed resolves it: offset from the position after the last accepted draft.
  int32_t position;
  // Start of the row's page tables among the step's page ids, minus the tables' first_page: position p is in
  // page page_ids[full_pages + p / kPagePositions].
  uint32_t full_pages, sliding_pages;
};

// Consecutive rows of one sequence, with consecutive positions.
struct TileInput {
  int32_t first_row, num_rows;  // rows of the step; num_rows is at most kTileRows
};
inline constexpr int kTileRows{24};

// Path of a row of a draft tree: KV cache slots of its last positions. Without a tree, slots are positions.
struct RowPath {
  // Positions from `first` to the row's own are on the path. Earlier positions equal their slots.
  int32_t first;
  uint32_t slots;  // index into page_ids, minus `first`: slot of position p is page_ids[slots + p]
};
inline constexpr int kNoPath{0x7FFFFFFF};  // RowPath::first if slot and position are equal for every position

struct StepInput {
  const RowInput* rows;      // [T]: token, position and page tables of each row
  const TileInput* tiles;    // the rows of each tile of attend_tiles()
  const uint32_t* page_ids;  // ids of the pages in both page tables of every run; then the slots of paths
  // [T], null except in steps with trees: the slot for each row's K and V (-1: do not store them), and each
  // row's path. If null, every row's slot is its position.
  const int32_t* slots{nullptr};
  const RowPath* paths{nullptr};
};

}  // namespace nibble::cuda
