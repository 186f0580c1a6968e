// Messages between ranks: their places in an inbox, and their tags. This folder's kernels use it and, without
// a GPU, host threads in tests/backend/cuda/ranks/protocol_test.cpp. C++17, for device code.
//
// All-reduce of few rows, by tagged words: each rank sends its terms to all others, and adds up all rows.
// Sums alternate between two slots of an inbox. Two slots are enough: a rank sends sum n + 1 only after it
// has all terms of sum n, and the other ranks had read sum n - 1 when they sent these terms.
//
// All-reduce of more rows, by owners: ranks send their terms of a row to the row's owner, which returns the
// result to all. Once all rows have returned, every owner has read this rank's terms, so one slot is enough.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::cuda {

inline constexpr int kMaxRanks{8};
// Up to this number of rows, a sum is sent as tagged words, each a float and a tag. They need no fence and
// cross the link once, but each rank sends (N - 1) R H words of 8 bytes, for N ranks and R rows of H numbers.
// With owners it sends (N - 1) / N R H terms of 4 bytes and results of 2 bytes. Computed for NVLink (387
// GB/s), N = 2, H = 2,880: words take 3 us + 0.060 us per row, owners 10 us + 0.022 us per row. Break-even:
// 188 rows for 2 ranks, 78 for 3, 48 for 4, 18 for 8. Slower links lower it, so a smaller limit is safe.
constexpr int tagged_rows(int num_ranks) { return 128 / (num_ranks - 1); }
// Most rows of one sum, which determines the size of the inbox. Steps with more rows run several sums.
inline constexpr int kSumRows{8192};
inline constexpr int kInboxSlots{2};

// Returns the slot of a sum after half a layer. A step has an even number of halves: slots alternate.
constexpr int slot_of_sum(int half, int launch, int launches_of_half) {
  return (half * launches_of_half + launch) % kInboxSlots;
}
// Sums with owners: a row's owner, the row's index among its owner's rows, and the most rows per owner.
constexpr int owner_of(int row, int num_ranks) { return row % num_ranks; }
constexpr int index_of(int row, int num_ranks) { return row / num_ranks; }
constexpr int most_owned(int num_rows, int num_ranks) { return (num_rows + num_ranks - 1) / num_ranks; }
// Returns the n-th row that this rank does not own, or a row past the last; n < most_owned() times the number
// of other ranks. Consecutive rows have different owners, which spreads the load over the links.
constexpr int others_row(int n, int rank, int num_ranks) {
  return n / (num_ranks - 1) * num_ranks + (rank + 1 + n % (num_ranks - 1)) % num_ranks;
}
// Returns the index of from_rank's first element in an inbox with `room` elements per slot and rank.
constexpr size_t place_of(int num_ranks, int slot, int from_rank, int room) {
  return (size_t{1} * slot * num_ranks + from_rank) * room;
}
// Returns the rank `distance` after `rank`, cyclically. Ranks send to the next one first, to spread the load.
constexpr int peer_of(int rank, int distance, int num_ranks) { return (rank + distance) % num_ranks; }

// Returns the tag of a step's message `number`, equal on all ranks. Tags wrap: compare equality or distance.
constexpr uint32_t tag_of(uint32_t step, uint32_t tags_per_step, int number) {
  return step * tags_per_step + static_cast<uint32_t>(number);
}
// Returns whether a rank has reached the meeting `tag` or a later one. `arrival`: tag of its latest arrival.
constexpr bool has_reached(uint32_t arrival, uint32_t tag) {
  return static_cast<int32_t>(arrival - tag) >= 0;
}

// A tagged word has 32 bits of data in its lower half and the tag in its upper half.
constexpr uint64_t tagged(uint32_t bits, uint32_t tag) { return uint64_t{tag} << 32 | bits; }
constexpr bool has_tag(uint64_t word, uint32_t tag) { return static_cast<uint32_t>(word >> 32) == tag; }
constexpr uint32_t untagged(uint64_t word) { return static_cast<uint32_t>(word); }

}  // namespace nibble::cuda
