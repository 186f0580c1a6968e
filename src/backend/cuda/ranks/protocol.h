// How ranks tell each other numbers: where these lie in an inbox, and by which tags they are known. The kernels of sum.cu follow it, and so
// do threads of the host in tests/backend/cuda/ranks/protocol_test.cpp. Needs no GPU. C++17, for device code.
//
// Sums use the slots of an inbox in turn. A rank sends sum n + 1 when it has all of sum n, for which every other one had to have read sum
// n - 1: two slots are enough, and one is not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::cuda {

inline constexpr int kMaxRanks{8};
// Up to so many rows a sum travels as words that are a float and a tag: they need no fence, but twice the bytes.
inline constexpr int kTaggedRows{16};
// More rows than these are several sums: they decide how large an inbox is.
inline constexpr int kSumRows{2048};
// The CTAs of a sum of many rows, on every chip. CTA n waits for the CTAs n of the other ranks, so all of them have to be resident at once.
// A multiprocessor holds kResidentSumCtas.
inline constexpr int kSumCtas{128}, kResidentSumCtas{2};
inline constexpr int kLeastMultiprocessors{kSumCtas / kResidentSumCtas};
inline constexpr int kInboxSlots{2};

// The slot of a sum behind a half of a layer, which is so many launches. A step has an even number of halves, so the next one goes on in turn.
constexpr int slot_of_sum(int half, int launch, int launches_of_half) {
  return (half * launches_of_half + launch) % kInboxSlots;
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
