// The input of a step in device memory: one row per token.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// The same as kPageTokens of the host's headers, which kernels do not include.
inline constexpr int kPagePositions{32};

// A number from 0 on, or none: std::optional for device code and for memory that is copied to the device.
struct OptionalIndex {
  int32_t bits;  // negative: none

  static constexpr OptionalIndex none() { return {-1}; }
  static constexpr OptionalIndex of(int index) { return {index}; }

  constexpr bool has_value() const { return bits >= 0; }
  constexpr int value() const { return bits; }  // only if it has one
};

// Where a row's token comes from. The previous step may still run when the host writes the row.
enum class TokenSource : uint32_t {
  kKnown = 0,                      // the host
  kOutputRow = uint32_t{1} << 30,  // an output row of the previous step, which chose the token
  // A draft chain of the previous step, or the token before it (row_of_chain() of input/draft_slots.h)
  kDraftChain = uint32_t{1} << 31,
};

// A token, or the index of the output row or draft chain that has it. embed, the first kernel of a step,
// replaces indices by tokens.
struct TokenInput {
  static constexpr uint32_t kSourceBits{uint32_t{3} << 30};

  uint32_t bits;  // the source in kSourceBits, the token or index in the others

  static constexpr TokenInput of(int token) { return of(TokenSource::kKnown, token); }
  static constexpr TokenInput of_output_row(int row) { return of(TokenSource::kOutputRow, row); }
  static constexpr TokenInput of_draft_chain(int chain) { return of(TokenSource::kDraftChain, chain); }
  static constexpr TokenInput of(TokenSource source, int index) {
    return {static_cast<uint32_t>(source) | static_cast<uint32_t>(index)};
  }

  constexpr TokenSource source() const { return static_cast<TokenSource>(bits & kSourceBits); }
  constexpr int index() const { return static_cast<int>(bits & ~kSourceBits); }
  // The token, if the source is kKnown. kKnown is 0, so there are no bits to remove.
  constexpr int id() const { return static_cast<int>(bits); }
};

struct alignas(16) RowInput {
  TokenInput token;
  // For kDraftChain until embed: counted from the first position after the drafts accepted by the previous
  // step.
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
