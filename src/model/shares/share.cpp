#include "model/shares/share.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/errors/check.h"
#include "core/errors/error.h"

namespace nibble {
namespace {

constexpr int kTileUnits{64}, kStripVocab{16};

// Returns a rank's range of `count` indices: in proportion to its entry in `parts`, in whole blocks of `size`
// (the last block may be shorter).
IndexRange part_of_rank(int count, int size, std::span<const int> parts, size_t rank) {
  const int64_t num_blocks = (count + size - 1) / size, whole = std::reduce(parts.begin(), parts.end());
  const auto boundary = [&](size_t ranks_before) {
    const int64_t sum =
        std::reduce(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(ranks_before), int64_t{0});
    const int64_t block = (2 * num_blocks * sum + whole) / (2 * whole);  // the nearest block boundary
    return static_cast<int>(std::min<int64_t>(block * size, count));
  };
  const int first = boundary(rank);
  return {first, boundary(rank + 1) - first};
}

IndexRange times(const IndexRange& range, int factor) { return {range.first * factor, range.count * factor}; }

}  // namespace

MatrixSlice Share::q(const Config& whole) const { return {times(heads, whole.head_dim), {0, whole.hidden}}; }
MatrixSlice Share::k_and_v(const Config& whole) const {
  return {times(kv_heads, whole.head_dim), {0, whole.hidden}};
}
MatrixSlice Share::o(const Config& whole) const { return {{0, whole.hidden}, times(heads, whole.head_dim)}; }
MatrixSlice Share::gate_up(const Config& whole) const { return {times(units, 2), {0, whole.hidden}}; }
MatrixSlice Share::down(const Config& whole) const { return {{0, whole.hidden}, units}; }
MatrixSlice Share::unembedding(const Config& whole) const { return {vocab, {0, whole.hidden}}; }

Share whole_of(const Config& config) {
  Share share;
  share.kv_heads.count = config.num_kv_heads;
  share.heads.count = config.num_heads;
  share.units.count = config.intermediate;
  share.experts.count = config.num_experts;
  share.vocab.count = config.vocab;
  return share;
}

std::vector<Share> shares_of(const Config& whole, std::span<const int> parts, std::string_view source,
                             const SplitOptions& split) {
  const int num_ranks = static_cast<int>(parts.size()), group = whole.num_heads / whole.num_kv_heads;
  const bool has_own_sequences = split.attention == AttentionSplit::kSequences;
  if (!has_own_sequences && whole.num_kv_heads % num_ranks != 0)
    throw InputError("{} {}: {} has {} key/value heads, which can't be split evenly into {} parts",
                     split.flag, num_ranks, source, whole.num_kv_heads, num_ranks);
  const bool has_whole = split.experts == ExpertSplit::kWhole;
  std::vector<Share> shares(parts.size());
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    Share& share = shares[rank];
    share.rank = static_cast<int>(rank);
    share.num_ranks = num_ranks;
    share.has_own_sequences = has_own_sequences;
    share.kv_heads = {0, whole.num_kv_heads};
    if (!has_own_sequences) share.kv_heads = part_of_rank(whole.num_kv_heads, 1, parts, rank);
    share.heads = times(share.kv_heads, group);
    share.units = {0, whole.intermediate};
    share.experts = {0, whole.num_experts};
    if (has_whole)
      share.experts = part_of_rank(whole.num_experts, 1, parts, rank);
    else
      share.units = part_of_rank(whole.intermediate, kTileUnits, parts, rank);
    const int own = has_whole ? share.experts.count : share.units.count;
    share.vocab = part_of_rank(whole.vocab, kStripVocab, parts, rank);
    if (share.kv_heads.count == 0 || own == 0 || share.vocab.count == 0)
      throw InputError(
          "{} {}: {} has {} key/value heads and {}; part {} would have {} and {}: use fewer parts, or a more "
          "even --tensor-split",
          split.flag, num_ranks, source, whole.num_kv_heads,
          has_whole ? fmt::format("{} experts", whole.num_experts)
                    : fmt::format("{} units per expert", whole.intermediate),
          rank, share.kv_heads.count, own);
  }
  return shares;
}

Config config_of(const Config& whole, const Share& share) {
  Config config = whole;
  config.num_heads = share.heads.count;
  config.num_kv_heads = share.kv_heads.count;
  config.intermediate = share.units.count;
  if (share.experts.count < whole.num_experts) config.own_experts = share.experts;
  return config;
}

Pieces pieces_of(const StoredMatrices& stored, const MatrixSlice& slice) {
  const int rows = stored.rows, cols = stored.cols;
  const auto bytes_of = [&](int num_cols) {
    return static_cast<size_t>(num_cols) * stored.size.bytes / stored.size.elements;
  };
  const size_t row_bytes = bytes_of(cols), matrix_bytes = static_cast<size_t>(rows) * row_bytes;
  const bool has_rows = slice.rows.count == rows, has_cols = slice.cols.count == cols;
  NIBBLE_CHECK(has_rows || has_cols, "rows {} of {}, columns {} of {}", slice.rows.count, rows,
               slice.cols.count, cols);
  const std::byte* first = static_cast<const std::byte*>(stored.data) +
                           static_cast<size_t>(slice.rows.first) * row_bytes + bytes_of(slice.cols.first);
  const auto matrices = static_cast<size_t>(stored.count);
  if (has_rows && has_cols) return {first, matrices * matrix_bytes, matrices * matrix_bytes, 1};
  if (has_cols) return {first, static_cast<size_t>(slice.rows.count) * row_bytes, matrix_bytes, matrices};
  return {first, bytes_of(slice.cols.count), row_bytes, matrices * static_cast<size_t>(rows)};
}

}  // namespace nibble
