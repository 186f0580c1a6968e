// What this machine's memory and arithmetic reach: what the benchmarks' figures are shares of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/cpu/isa/kernels.h"
#include "backend/cpu/kernel_table.h"
#include "core/buffer.h"
#include "core/clock.h"
#include "core/thread_pool.h"

#if NIBBLE_X86
#include <immintrin.h>
#endif

namespace nibble::bench {

// More than any cache: a level 3 of 300 MB is what the largest server has that a virtual machine of it shows.
inline constexpr size_t kColdBytes{size_t{768} << 20};

inline ThreadPool& all_cores() {
  static ThreadPool pool(0);
  return pool;
}

// Written once, by all cores; read in pieces. The pattern is BF16 numbers around 0.01, so that no kernel meets subnormals.
inline const Buffer& cold_bytes() {
  static const Buffer buffer = [] {
    Buffer bytes(kColdBytes);
    auto* words = bytes.as<uint16_t>();
    all_cores().for_each(kColdBytes >> 20, [&](ptrdiff_t piece, int) {
      for (ptrdiff_t i = piece << 19; i < (piece + 1) << 19; ++i)
        words[i] = static_cast<uint16_t>(0x3C00 + (i * 40503 >> 5 & 0x80FF));
    });
    return bytes;
  }();
  return buffer;
}

// Asks for lines 4 KB ahead: the hardware alone stops at the end of each page, and reaches a third less.
inline uint64_t sum_words(const uint64_t* words, size_t count) {
  uint64_t sums[8]{};
  for (size_t i = 0; i < count; i += 8) {
    __builtin_prefetch(words + i + 512);
    for (size_t s = 0; s < 8; ++s) sums[s] += words[i + s];
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  return sum;
}

// Bytes per second that the threads of `pool` read together from memory, in pieces of 1 MB as they come free.
inline double read_pass(ThreadPool& pool) {
  const auto* words = cold_bytes().as<uint64_t>();
  constexpr size_t kPieceWords{(size_t{1} << 20) / sizeof(uint64_t)};
  uint64_t sums[1024]{};
  const Stopwatch watch;
  pool.for_each(kColdBytes >> 20, [&](ptrdiff_t piece, int thread) {
    sums[thread % 1024] += sum_words(words + piece * kPieceWords, kPieceWords);
  });
  const double seconds = watch.seconds();
  volatile uint64_t keep = sums[0];
  static_cast<void>(keep);
  return static_cast<double>(kColdBytes) / seconds;
}

// Bytes per second that all cores reach now, the best of a few passes: measured beside each figure that is given as a share of
// it, since on a machine that is shared with others it changes from one minute to the next.
inline double measured_bandwidth() {
  double best = 0;
  for (int i = 0; i < 3; ++i) best = std::max(best, read_pass(all_cores()));
  return best;
}

}  // namespace nibble::bench
