// A rank's share of a model that several ranks run together, each on one GPU or machine. In every layer a
// rank has some key/value heads with their query heads, and either some units (rows of gate and up, columns
// of down) of every expert or some whole experts. A rank has some rows of the unembedding, and all norms, the
// router and the embedding. An all-reduce after attention and one after the experts add up the results. Some
// terms must be added only once: the first rank adds the residual stream and the bias of `o`; the rank with
// an expert's first unit adds that expert's bias of `down`. With AttentionSplit::kSequences each rank has all
// heads, but only some of the sequences. It runs attention and stores keys and values only for rows of its
// sequences. Then the output of attention, with the bias of `o`, needs no all-reduce. Units are divided in
// tiles of 64, because kernels read `down` in such tiles; the unembedding in strips of 16 rows.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/tensors/index_range.h"
#include "model/config.h"

namespace nibble {

struct MatrixSlice {
  IndexRange rows, cols;
};

class Share {
 public:
  int rank{0}, num_ranks{1};
  IndexRange kv_heads, heads, units, experts, vocab;  // ranges within the whole model
  bool has_own_sequences{false};

  // Whether the rank adds terms that are added only once: residual stream, bias of `o`, bias of `down`.
  bool adds_once() const { return rank == 0; }
  bool adds_o_bias() const { return rank == 0 || has_own_sequences; }
  bool adds_down_bias() const { return units.first == 0; }
  // Return the parts of a layer's matrices that the rank has. model/weights.h has the shapes of the whole
  // matrices.
  MatrixSlice q(const Config& whole) const;
  MatrixSlice k_and_v(const Config& whole) const;  // slice of k; v has the same slice
  MatrixSlice o(const Config& whole) const;
  MatrixSlice gate_up(const Config& whole) const;  // identical for each expert
  MatrixSlice down(const Config& whole) const;     // identical for each expert
  MatrixSlice unembedding(const Config& whole) const;
};

// Each rank has some units of every expert, or whole experts.
enum class ExpertSplit { kUnits, kWhole };
// Each rank has some heads, or all heads for sequences of its own.
enum class AttentionSplit { kHeads, kSequences };

Share whole_of(const Config& config);  // the share of a rank that runs the model alone

struct SplitOptions {
  std::string_view flag{"--tensor-parallel-size"};  // the option that set the number of ranks, for errors
  ExpertSplit experts{ExpertSplit::kUnits};
  AttentionSplit attention{AttentionSplit::kHeads};
};
// Returns a share for each entry of `parts`, in proportion: {3, 1} gives three quarters and one quarter.
// Throws InputError if heads are divided and the number of key/value heads is not a multiple of the number of
// ranks, or if a rank would get nothing. `source` names the model in errors.
std::vector<Share> shares_of(const Config& whole, std::span<const int> parts, std::string_view source,
                             const SplitOptions& split = {});

// Returns the configuration of a rank: its own heads, experts and their width, but the whole vocabulary.
Config config_of(const Config& whole, const Share& share);

struct Pieces {  // `count` pieces of memory of `bytes` bytes, `stride` bytes apart
  const std::byte* data{nullptr};
  size_t bytes{0}, stride{0}, count{0};

  size_t total() const { return bytes * count; }
};
struct ElementSize {  // `elements` elements take `bytes` bytes
  size_t bytes, elements;
};
struct StoredMatrices {  // `count` matrices of the same size, consecutive in memory
  const void* data;
  ElementSize size;
  int rows, cols, count{1};
};
// Returns the pieces of `slice` in each matrix. The slice has all rows or all columns, like every slice of a
// Share.
Pieces pieces_of(const StoredMatrices& stored, const MatrixSlice& slice);

}  // namespace nibble
