// Messages between ranks: places in an inbox, and tags. Used by this folder's kernels and, without a GPU, by
// host threads in tests/backend/cuda/ranks/protocol_test.cpp. C++17, for device code.
//
// All-reduce of few rows, as tagged words: each rank sends its terms to all others and adds up all rows. Sums
// alternate between two slots of an inbox. Two suffice: a rank sends sum n + 1 only once it has all terms of
// sum n, which the others sent after they had read sum n - 1.
//
// All-reduce of more rows, "dealt" to owners: ranks send their terms of a row to its owner, which returns the
// result to all. When all rows have returned, a rank's terms have been read: one slot is enough.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::cuda {

inline constexpr int kMaxRanks{8};
// Up to this number of rows, a sum is sent as tagged words, each a float and a tag. These need no fence and
// cross the link once, but (N - 1) R H words of 8 bytes leave each rank, for N ranks and R rows of H numbers.
// With owners, (N - 1) / N R H terms of 4 bytes and results of 2 bytes leave it. Computed, not measured, for
// NVLink (387 GB/s), N = 2, H = 2,880: 0.060 and 0.022 us per row after a latency of 3 and 10 us. Break-even:
// 188 rows for 2 ranks, 78 for 3, 48 for 4, 18 for 8. Slower links lower it, so a smaller limit is safe.
constexpr int tagged_rows(int num_ranks) { return 128 / (num_ranks - 1); }
// The maximum rows of one sum, which sizes the inbox; a step with more rows runs several sums.
inline constexpr int kSumRows{8192};
inline constexpr int kInboxSlots{2};

// The slot of a sum after half a layer. A step has an even number of halves, so steps keep alternating slots.
constexpr int slot_of_sum(int half, int launch, int launches_of_half) {
  return (half * launches_of_half + launch) % kInboxSlots;
}
// In a sum with owners: a row's owner, its index among the owner's rows, and the maximum rows per owner.
constexpr int owner_of(int row, int num_ranks) { return row % num_ranks; }
constexpr int index_of(int row, int num_ranks) { return row / num_ranks; }
constexpr int most_owned(int num_rows, int num_ranks) { return (num_rows + num_ranks - 1) / num_ranks; }
// Returns the n-th row that this rank does not own, or a row past the last; n is less than most_owned() times
// the number of other ranks. Consecutive rows have different owners, to spread the load over the links.
constexpr int others_row(int n, int rank, int num_ranks) {
  return n / (num_ranks - 1) * num_ranks + (rank + 1 + n % (num_ranks - 1)) % num_ranks;
}
// Offset, in elements, of from_rank's data in an inbox with `room` elements per slot and rank.
constexpr size_t place_of(int num_ranks, int slot, int from_rank, int room) {
  return (size_t{1} * slot * num_ranks + from_rank) * room;
}
// The rank `distance` after `rank`, cyclically. Ranks send to the next one first, to spread load over links.
constexpr int peer_of(int rank, int distance, int num_ranks) { return (rank + distance) % num_ranks; }

// The tag of a step's message `number`, the same on all ranks. Tags wrap: compare by equality or distance.
constexpr uint32_t tag_of(uint32_t step, uint32_t tags_per_step, int number) {
  return step * tags_per_step + static_cast<uint32_t>(number);
}
// Whether a rank whose latest arrival has the tag `arrival` has reached the meeting `tag` or a later one.
constexpr bool has_reached(uint32_t arrival, uint32_t tag) {
  return static_cast<int32_t>(arrival - tag) >= 0;
}

// A tagged word: 32 bits of data in the lower half, the tag in the upper half.
constexpr uint64_t tagged(uint32_t bits, uint32_t tag) { return uint64_t{tag} << 32 | bits; }
constexpr bool has_tag(uint64_t word, uint32_t tag) { return static_cast<uint32_t>(word >> 32) == tag; }
constexpr uint32_t untagged(uint64_t word) { return static_cast<uint32_t>(word); }

}  // namespace nibble::cuda
