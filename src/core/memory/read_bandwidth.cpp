#include "core/memory/read_bandwidth.h"

#include <algorithm>
#include <cstdint>

#include "core/system/clock.h"

namespace nibble {
namespace {

constexpr size_t kPieceBytes{size_t{1} << 20};
constexpr int kPasses{5};

// Prefetches 4 KB ahead, because the hardware prefetcher stops at page boundaries. Without this, reading is a
// third slower.
uint64_t sum_words(const uint64_t* words, size_t count) {
  uint64_t sums[8]{};
  for (size_t i = 0; i < count; i += 8) {
    __builtin_prefetch(words + i + 512);
    for (size_t s = 0; s < 8; ++s) sums[s] += words[i + s];
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

}  // namespace

Buffer make_cold_bytes(ThreadPool& pool) {
  Buffer bytes(kColdBytes);
  constexpr ptrdiff_t kPieceWords{kPieceBytes / sizeof(uint16_t)};
  auto* words = bytes.as<uint16_t>();
  pool.for_each(kColdBytes / kPieceBytes, [&](ptrdiff_t piece, int) {
    for (ptrdiff_t i = piece * kPieceWords; i < (piece + 1) * kPieceWords; ++i)
      words[i] = static_cast<uint16_t>(0x3C00 + (i * 40503 >> 5 & 0x80FF));
  });
  return bytes;
}

double read_pass(ThreadPool& pool, const Buffer& bytes) {
  const auto* words = bytes.as<uint64_t>();
  constexpr size_t kPieceWords{kPieceBytes / sizeof(uint64_t)};
  const size_t num_pieces = bytes.bytes() / kPieceBytes;
  uint64_t sums[1024]{};
  const Stopwatch watch;
  pool.for_each(static_cast<ptrdiff_t>(num_pieces), [&](ptrdiff_t piece, int thread) {
    sums[thread % 1024] += sum_words(words + piece * kPieceWords, kPieceWords);
  });
  const double seconds = watch.seconds();
  volatile uint64_t keep = sums[0];
  static_cast<void>(keep);
  return static_cast<double>(num_pieces * kPieceBytes) / seconds;
}

double read_bandwidth(ThreadPool& pool, const Buffer& cold_bytes) {
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) best = std::max(best, read_pass(pool, cold_bytes));
  return best;
}

}  // namespace nibble
