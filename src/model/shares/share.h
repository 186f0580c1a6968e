// A rank's share of a model that several ranks run together, each on one GPU or machine. Of every layer a
// rank has some key/value heads with their query heads, and either some units of every expert or some whole
// experts; of the unembedding it has some rows. Norms, the router and the embedding are on every rank. After
// attention and after the experts an all-reduce adds up the ranks' results. Terms that must be added only
// once, the residual stream and the bias of `o`, come from the first rank; an expert's bias of `down` comes
// from the rank with the expert's first unit.
//
// With AttentionSplit::kSequences each rank has all heads, and sequences of its own: it computes attention
// and stores keys and values only for the rows of its sequences. The attention output of these rows, bias
// included, is then complete without an all-reduce.
//
// Units are divided in tiles of 64, because the contraction of `down` is read in tiles of that size. Rows of
// the unembedding are divided in strips of 16 (backend/cuda/layout/strips.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/index_range.h"
#include "model/config.h"

namespace nibble {

// Rows and columns of a matrix.
struct MatrixSlice {
  IndexRange rows, cols;
};

class Share {
 public:
  int rank{0}, num_ranks{1};
  IndexRange kv_heads, heads, units, experts, vocab;  // ranges within the whole model
  bool has_own_sequences{false};

  // Whether the rank adds the terms that are added once: the residual stream, the bias of `o`, and the bias
  // of `down` of its experts.
  bool adds_once() const { return rank == 0; }
  bool adds_o_bias() const { return rank == 0 || has_own_sequences; }
  bool adds_down_bias() const { return units.first == 0; }
  // The part of a layer's matrices that the rank has. model/weights.h has their shapes.
  MatrixSlice q(const Config& whole) const;
  MatrixSlice k_and_v(const Config& whole) const;  // of each
  MatrixSlice o(const Config& whole) const;
  MatrixSlice gate_up(const Config& whole) const;  // of each expert
  MatrixSlice down(const Config& whole) const;     // of each expert
  MatrixSlice unembedding(const Config& whole) const;
};

// How ranks divide the experts: each rank has some units of every expert, or some whole experts.
enum class ExpertSplit { kUnits, kWhole };
// How ranks divide attention: each rank has some heads, or all heads for sequences of its own.
enum class AttentionSplit { kHeads, kSequences };

// Returns the share of a rank that runs the model alone.
Share whole_of(const Config& config);

struct SplitOptions {
  std::string_view flag{"--tensor-parallel-size"};  // the option that set the number of ranks, for errors
  ExpertSplit experts{ExpertSplit::kUnits};
  AttentionSplit attention{AttentionSplit::kHeads};
};
// Returns one share per entry of `parts`, in proportion to these: {1, 1} gives two equal shares, {3, 1} three
// quarters and one quarter. Throws InputError if heads are divided and the number of key/value heads is not a
// multiple of the number of ranks, or if some rank would get nothing. `source` names the model.
std::vector<Share> shares_of(const Config& whole, std::span<const int> parts, std::string_view source,
                             const SplitOptions& split = {});

// Returns the model's configuration as the rank sees it: with its heads, its experts and their width. The
// vocabulary stays whole, because tokens are not divided.
Config config_of(const Config& whole, const Share& share);

// `count` pieces of memory of `bytes` bytes each, which begin `stride` bytes apart.
struct Pieces {
  const std::byte* data{nullptr};
  size_t bytes{0}, stride{0}, count{0};

  size_t total() const { return bytes * count; }
};
struct ElementSize {  // `elements` elements take `bytes` bytes
  size_t bytes, elements;
};
// Consecutive matrices of the same size in memory.
struct StoredMatrices {
  const void* data;
  ElementSize size;
  int rows, cols, count{1};
};
// Returns the pieces of `slice` in each of the matrices. The slice must have all rows or all columns, as
// those of a Share do.
Pieces pieces_of(const StoredMatrices& stored, const MatrixSlice& slice);

}  // namespace nibble
