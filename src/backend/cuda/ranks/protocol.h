// Messages between ranks: their places in an inbox, and their tags. The kernels of this folder use this
// header. So does tests/backend/cuda/ranks/protocol_test.cpp, in which host threads take the place of GPUs.
// CUDA code includes this header, so it must compile as C++17.
//
// All-reduce of few rows, by tagged words: each rank sends its terms to all other ranks, and adds up all
// rows. Sums use the two slots of an inbox in turn. Two slots are enough, although the words of sum n + 1
// overwrite those of sum n - 1: a rank sends its terms of sum n + 1 only after it has received all ranks'
// terms of sum n, and each rank has sent those only after it had read all terms of sum n - 1.
//
// All-reduce of more rows, by owners: ranks send their terms of a row to its owner, which returns the sum to
// all ranks. Once a rank has received the sums of all rows, every owner has read this rank's terms. The rank
// may then overwrite them with its terms of the next sum, so one slot is enough.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::cuda {

inline constexpr int kMaxRanks{8};
// Up to this number of rows, sums use tagged words (a float and a tag). Such sums have less latency: tagged
// words need no fence, and results need no second transfer. However, for R rows of H numbers, each of N ranks
// sends (N - 1) R H words of 8 bytes. In sums by owners, a rank sends only (N - 1) / N R H terms of 4 bytes,
// and the same number of results of 2 bytes. For NVLink (387 GB/s), N = 2 and H = 2,880, a sum by words takes
// 3 us + 0.060 us per row, and a sum by owners 10 us + 0.022 us per row. The two times are equal at 188 rows;
// for 3, 4 and 8 ranks, at 78, 48 and 18 rows. With slower links, they are equal at fewer rows, so
// tagged_rows() does not exceed these numbers.
constexpr int tagged_rows(int num_ranks) { return 128 / (num_ranks - 1); }
// Largest number of rows of one sum, which decides the size of an inbox. Steps of more rows run several sums
// per half layer.
inline constexpr int kSumRows{8192};
inline constexpr int kInboxSlots{2};

// Returns the slot of a sum after half a layer. Slots alternate from sum to sum. A step has an even number of
// halves, so its last sum and the next step's first sum use different slots, too.
constexpr int slot_of_sum(int half, int launch, int launches_of_half) {
  return (half * launches_of_half + launch) % kInboxSlots;
}
// In sums by owners, owner_of() returns a row's owner, index_of() the row's index among the owner's rows, and
// most_owned() the largest number of rows that a rank owns.
constexpr int owner_of(int row, int num_ranks) { return row % num_ranks; }
constexpr int index_of(int row, int num_ranks) { return row / num_ranks; }
constexpr int most_owned(int num_rows, int num_ranks) { return (num_rows + num_ranks - 1) / num_ranks; }
// Returns the n-th row that this rank does not own, or a row past the last one. n must be below
// most_owned() * (num_ranks - 1). With more than two ranks, the rows of consecutive n have different owners,
// so that a rank sends over all its links at the same time.
constexpr int others_row(int n, int rank, int num_ranks) {
  return n / (num_ranks - 1) * num_ranks + (rank + 1 + n % (num_ranks - 1)) % num_ranks;
}
// Returns the index of from_rank's first element in an inbox with `room` elements per slot and rank.
constexpr size_t place_of(int num_ranks, int slot, int from_rank, int room) {
  return (size_t{1} * slot * num_ranks + from_rank) * room;
}
// Returns the rank `distance` places after `rank`, cyclically. Ranks send to the next rank first.
constexpr int peer_of(int rank, int distance, int num_ranks) { return (rank + distance) % num_ranks; }

// Returns the tag of message `number` of a step. Tags wrap: test them by equality or has_reached().
constexpr uint32_t tag_of(uint32_t step, uint32_t tags_per_step, int number) {
  return step * tags_per_step + static_cast<uint32_t>(number);
}
// Returns whether a rank has arrived at the barrier (meeting) with this tag or at a later one. `arrival`: tag
// of the rank's latest arrival.
constexpr bool has_reached(uint32_t arrival, uint32_t tag) {
  return static_cast<int32_t>(arrival - tag) >= 0;
}

// A tagged word has 32 bits of data in its lower half and its tag in the upper half.
constexpr uint64_t tagged(uint32_t bits, uint32_t tag) { return uint64_t{tag} << 32 | bits; }
constexpr bool has_tag(uint64_t word, uint32_t tag) { return static_cast<uint32_t>(word >> 32) == tag; }
constexpr uint32_t untagged(uint64_t word) { return static_cast<uint32_t>(word); }

}  // namespace nibble::cuda
