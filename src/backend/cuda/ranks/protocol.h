// How ranks tell each other numbers: where these lie in an inbox, and by which tags they are known. The kernels of this folder follow it, and so
// do threads of the host in tests/backend/cuda/ranks/protocol_test.cpp. Needs no GPU. C++17, for device code.
//
// A sum of few rows is words: every rank sends its terms to all others, and adds up all rows. Such sums use the slots of an inbox in turn. A rank
// sends sum n + 1 when it has all of sum n, for which every other one had to have read sum n - 1: two slots are enough, and one is not.
//
// A sum of more rows is dealt out: each row has an owner, to which the others send their terms, and which sends what it makes of them back to
// all. A sum has ended when all rows have come back. So whoever sends the next one's terms knows that its last ones have been read: one slot
// is enough.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::cuda {

inline constexpr int kMaxRanks{8};
// Up to so many rows a sum travels as words that are a float and a tag. They need no fence and one way over the link, but (N - 1) R words of 8
// bytes leave a rank; dealt out, (N - 1) / N R numbers of 4 bytes and as many of 2 do. With NVLink, 387 GB/s, and rows of 2,880 numbers these
// are 0.060 and 0.022 us a row for two ranks, after 3 and 10 us until the first ones are through: computed, not measured. Equal at 188 rows of
// two ranks, 78 of three, 48 of four, 18 of eight; less is safe, because a slower link moves them down.
constexpr int tagged_rows(int num_ranks) { return 128 / (num_ranks - 1); }
// More rows than these are several sums: they decide how large an inbox is.
inline constexpr int kSumRows{8192};
inline constexpr int kInboxSlots{2};

// The slot of a sum behind a half of a layer, which is so many launches. A step has an even number of halves, so the next one goes on in turn.
constexpr int slot_of_sum(int half, int launch, int launches_of_half) {
  return (half * launches_of_half + launch) % kInboxSlots;
}
// Who owns a row of a sum that is dealt out, which of its own rows that is, and how many of them it has at most.
constexpr int owner_of(int row, int num_ranks) { return row % num_ranks; }
constexpr int index_of(int row, int num_ranks) { return row / num_ranks; }
constexpr int most_owned(int num_rows, int num_ranks) { return (num_rows + num_ranks - 1) / num_ranks; }
// The n-th row that is not this rank's, of as many as most_owned() times the others, of which the last ones may not be there. Neighbours have
// different owners, so that no link has all at once.
constexpr int others_row(int n, int rank, int num_ranks) {
  return n / (num_ranks - 1) * num_ranks + (rank + 1 + n % (num_ranks - 1)) % num_ranks;
}
// The place in an inbox of what a rank sends, if each has room for so much.
constexpr size_t place_of(int num_ranks, int slot, int from_rank, int room) {
  return (size_t{1} * slot * num_ranks + from_rank) * room;
}
// The rank that is so far behind another one. Each sends to its neighbour first, so that no link has all at once.
constexpr int peer_of(int rank, int distance, int num_ranks) { return (rank + distance) % num_ranks; }

// The tag of message `number` of a step. All ranks count the same steps. Tags wrap: they are compared for equality, or by their distance.
constexpr uint32_t tag_of(uint32_t step, uint32_t tags_per_step, int number) {
  return step * tags_per_step + static_cast<uint32_t>(number);
}
// Says whether a rank whose last arrival is known has come as far as the one with that tag; it may be ahead.
constexpr bool has_come(uint32_t arrival, uint32_t tag) { return static_cast<int32_t>(arrival - tag) >= 0; }

// A word of 32 bits below a tag.
constexpr uint64_t tagged(uint32_t bits, uint32_t tag) { return uint64_t{tag} << 32 | bits; }
constexpr bool has_tag(uint64_t word, uint32_t tag) { return static_cast<uint32_t>(word >> 32) == tag; }
constexpr uint32_t untagged(uint64_t word) { return static_cast<uint32_t>(word); }

}  // namespace nibble::cuda
