// What a rank has of a model that several ranks run together, each on a GPU or a machine: of every layer some key/value heads with the
// query heads that read them, and some units of every expert, or some experts as a whole; of the unembedding some rows. Norms, the router and the
// embedding are every rank's. Behind attention and behind the experts the ranks add up what they have, and what is added once is the first
// rank's: the residual stream and the bias of `o`. An expert's bias of `down` is added by who has its first unit.
//
// Or a rank has all heads, and sequences of its own: for their rows alone it computes attention and has keys and values. Then nobody adds
// anything to what it leaves of these rows, bias included.
//
// Units are dealt out in tiles of 64, because the contraction of `down` is read in those, and rows of the unembedding in strips of 16
// (backend/cuda/layout/strips.h).
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
  IndexRange kv_heads, heads, units, experts, vocab;  // indices into those of the whole model
  bool has_own_sequences{false};

  // Says whether the rank adds what is added once, the bias of `o`, and that of `down` of the experts that it has, or has a part of.
  bool adds_once() const { return rank == 0; }
  bool adds_o_bias() const { return rank == 0 || has_own_sequences; }
  bool adds_down_bias() const { return units.first == 0; }
  // What the rank has of a layer's matrices: model/weights.h has their shapes.
  MatrixSlice q(const Config& whole) const;
  MatrixSlice k_and_v(const Config& whole) const;  // of each
  MatrixSlice o(const Config& whole) const;
  MatrixSlice gate_up(const Config& whole) const;  // of each expert
  MatrixSlice down(const Config& whole) const;     // of each expert
  MatrixSlice unembedding(const Config& whole) const;
};

// How ranks divide the experts: each rank has units of every one, or some of them as a whole.
enum class ExpertSplit { kUnits, kWhole };
// How they divide attention.
enum class AttentionSplit { kHeads, kSequences };

// The share of a rank that runs the model alone.
Share whole_of(const Config& config);

// The shares of as many ranks as there are parts, in proportion to these: {1, 1} is two equal shares, {3, 1} three quarters and one. Throws
// InputError where heads are divided and the number of those of keys and values is no multiple of that of the ranks, or some rank would have
// nothing; `source` names the model, and `flag` what asked for so many ranks.
std::vector<Share> shares_of(const Config& whole, std::span<const int> parts, std::string_view source,
                             std::string_view flag = "--tensor-parallel-size",
                             ExpertSplit split = ExpertSplit::kUnits,
                             AttentionSplit attention = AttentionSplit::kHeads);

// The model as a rank sees it: with its heads, its experts and their width. The vocabulary stays whole, because tokens are.
Config config_of(const Config& whole, const Share& share);

// Bytes in memory: `count` pieces of so many bytes each, which begin a stride apart.
struct Pieces {
  const std::byte* data{nullptr};
  size_t bytes{0}, stride{0}, count{0};

  size_t total() const { return bytes * count; }
};
// A slice of each of several consecutive matrices of rows x cols elements. The slice has all rows or
// all columns of them, as those of a Share have.
struct ElementSize {  // so many elements take so many bytes
  size_t bytes, elements;
};
Pieces pieces_of(const void* data, ElementSize size, int rows, int cols, int num_matrices,
                 const MatrixSlice& slice);

}  // namespace nibble
