// The messages of ranks: where they are in an inbox, and the tags that identify them. The kernels of this
// folder follow this protocol, and so do host threads in tests/backend/cuda/ranks/protocol_test.cpp. Needs no
// GPU. C++17, for device code.
//
// All-reduce of few rows, as tagged words: every rank sends its terms to all other ranks, and adds up all
// rows. Such sums alternate between the slots of an inbox. A rank sends its terms of sum n + 1 once it has
// all terms of sum n. The other ranks had read sum n - 1 before they sent their terms of sum n. So two slots
// are enough, and a single slot is not.
//
// All-reduce of more rows, "dealt" to owners: the other ranks send their terms of a row to its owner, which
// sends the result back to all. A sum has ended when all rows have returned. So a rank that sends the next
// sum's terms knows that its terms of the previous sum have been read: one slot is enough.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::cuda {

inline constexpr int kMaxRanks{8};
// Up to this number of rows, a sum is sent as tagged words, each a float and a tag. Tagged words need no
// fence and cross the link once, but (N - 1) R H words of 8 bytes leave each rank, for N ranks and R rows of
// H numbers; with owners, (N - 1) / N R H numbers of 4 bytes and the same number of 2 bytes leave it. With
// NVLink, 387 GB/s, and rows of 2,880 numbers this takes 0.060 and 0.022 us per row for two ranks, after a
// latency of 3 and 10 us: computed, not measured. The break-even is 188 rows for two ranks, 78 for three, 48
// for four, 18 for eight; a smaller limit is safe, because a slower link lowers the break-even.
constexpr int tagged_rows(int num_ranks) { return 128 / (num_ranks - 1); }
// The maximum number of rows in one sum; a step with more rows runs several sums. Determines the size of an
// inbox.
inline constexpr int kSumRows{8192};
inline constexpr int kInboxSlots{2};

// Returns the slot of a sum after half a layer; each half has launches_of_half launches. A step has an even
// number of halves, so the next step continues the alternation.
constexpr int slot_of_sum(int half, int launch, int launches_of_half) {
  return (half * launches_of_half + launch) % kInboxSlots;
}
// The owner of a row in a sum with owners, the row's index among its owner's rows, and the maximum number of
// rows per owner.
constexpr int owner_of(int row, int num_ranks) { return row % num_ranks; }
constexpr int index_of(int row, int num_ranks) { return row / num_ranks; }
constexpr int most_owned(int num_rows, int num_ranks) { return (num_rows + num_ranks - 1) / num_ranks; }
// Returns the n-th row that this rank does not own; n < most_owned() times the number of other ranks. The
// result may be past the last row. Consecutive rows have different owners, to spread the load over the links.
constexpr int others_row(int n, int rank, int num_ranks) {
  return n / (num_ranks - 1) * num_ranks + (rank + 1 + n % (num_ranks - 1)) % num_ranks;
}
// Returns the offset, in elements, of from_rank's data in an inbox, with `room` elements per slot and rank.
constexpr size_t place_of(int num_ranks, int slot, int from_rank, int room) {
  return (size_t{1} * slot * num_ranks + from_rank) * room;
}
// Returns the rank that is `distance` after `rank`, cyclically. Each rank sends to the next rank first, to
// spread the load over the links.
constexpr int peer_of(int rank, int distance, int num_ranks) { return (rank + distance) % num_ranks; }

// Returns the tag of message `number` of a step. All ranks count the same steps. Tags wrap: compare them for
// equality, or by their distance.
constexpr uint32_t tag_of(uint32_t step, uint32_t tags_per_step, int number) {
  return step * tags_per_step + static_cast<uint32_t>(number);
}
// Whether a rank whose latest arrival has the tag `arrival` has reached the meeting with this tag, or a later
// one.
constexpr bool has_reached(uint32_t arrival, uint32_t tag) {
  return static_cast<int32_t>(arrival - tag) >= 0;
}

// A tagged word: 32 bits of data in the lower half, the tag in the upper half.
constexpr uint64_t tagged(uint32_t bits, uint32_t tag) { return uint64_t{tag} << 32 | bits; }
constexpr bool has_tag(uint64_t word, uint32_t tag) { return static_cast<uint32_t>(word >> 32) == tag; }
constexpr uint32_t untagged(uint64_t word) { return static_cast<uint32_t>(word); }

}  // namespace nibble::cuda
