// The input of a step in device memory: one row per token, with its tables. CUDA code includes this header,
// so it must compile as C++17.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// Positions per page. Equals kPageTokens in the host's headers, which kernels do not include.
inline constexpr int kPagePositions{32};

// An optional index. It replaces std::optional in device code, and in data that is copied to the device.
struct OptionalIndex {
  int32_t bits;  // the index; negative: none

  static constexpr OptionalIndex none() { return {-1}; }
  static constexpr OptionalIndex of(int index) { return {index}; }

  constexpr bool has_value() const { return bits >= 0; }
  constexpr int value() const { return bits; }  // call it only if has_value()
};

// Where a row's token comes from. The host may write a row while the previous step, which chooses the row's
// token, still runs.
enum class TokenSource : uint32_t {
  kKnown = 0,                      // the host knows the token
  kOutputRow = uint32_t{1} << 30,  // the previous step samples the token, from one of its output rows
  // A draft chain of the previous step gives the token, which is a draft or the token before the drafts.
  kDraftChain = uint32_t{1} << 31,
};

// A row's token; if the host does not know it yet, the index of the output row or draft chain that gives it.
// embed() then replaces the index by the token.
struct TokenInput {
  static constexpr uint32_t kSourceBits{uint32_t{3} << 30};

  uint32_t bits;  // source in kSourceBits; other bits: token, or index of the output row or chain

  static constexpr TokenInput of(int token) { return of(TokenSource::kKnown, token); }
  static constexpr TokenInput of_output_row(int row) { return of(TokenSource::kOutputRow, row); }
  static constexpr TokenInput of_draft_chain(int chain) { return of(TokenSource::kDraftChain, chain); }
  static constexpr TokenInput of(TokenSource source, int index) {
    return {static_cast<uint32_t>(source) | static_cast<uint32_t>(index)};
  }

  constexpr TokenSource source() const { return static_cast<TokenSource>(bits & kSourceBits); }
  constexpr int index() const { return static_cast<int>(bits & ~kSourceBits); }
  // Returns the token. Call it only if the source is kKnown: its bits are 0, so `bits` is the token itself.
  constexpr int id() const { return static_cast<int>(bits); }
};

struct alignas(16) RowInput {
  TokenInput token;
  // The row's position. If the token's source is kDraftChain, embed() computes the position. Until then the
  // field is 0 for the token before the chain's drafts, and n for the chain's n-th draft.
  int32_t position;
  // Index in StepInput::page_ids at which the ids of the row's pages begin, minus the page table's
  // first_page. So position p is in page page_ids[full_pages + p / kPagePositions]; in sliding layers,
  // sliding_pages replaces full_pages.
  uint32_t full_pages, sliding_pages;
};

// A tile of attend_tiles(): consecutive rows of one sequence, with consecutive positions.
struct TileInput {
  int32_t first_row, num_rows;  // rows of the step; num_rows is at most kTileRows
};
inline constexpr int kTileRows{24};

// The KV cache slots of a row's last positions, if the row belongs to a draft tree. In other rows, position p
// has slot p.
struct RowPath {
  // First position on the row's path. From there to the row's own position, slots are listed in page_ids; an
  // earlier position p has slot p.
  int32_t first;
  uint32_t slots;  // index into page_ids, minus `first`: the slot of position p is page_ids[slots + p]
};
inline constexpr int kNoPath{0x7FFFFFFF};  // RowPath::first of a row without a path

struct StepInput {
  const RowInput* rows;      // [T]: token, position and page tables of each row
  const TileInput* tiles;    // the rows of each tile of attend_tiles()
  const uint32_t* page_ids;  // ids of the pages in both page tables of every run, then the slots of all paths
  // [T], only in steps with draft trees: the slot in which each row stores K and V (-1: it stores none), and
  // each row's path. null: the slot of every row is the row's position.
  const int32_t* slots{nullptr};
  const RowPath* paths{nullptr};
};

}  // namespace nibble::cuda
