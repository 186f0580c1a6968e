// Measures the read bandwidth of this machine's memory, which bounds the speed of decoding.
#pragma once

#include <cstddef>

#include "core/buffer.h"
#include "core/thread_pool.h"

namespace nibble {

// Larger than any cache: the largest L3 seen, reported by a virtual machine, is 300 MB.
inline constexpr size_t kColdBytes{size_t{768} << 20};

// Returns a buffer of kColdBytes with every page written: unwritten pages share one zero page, which stays in
// a cache. The contents are BF16 numbers around 0.01, so that kernels that read them meet no subnormals.
Buffer make_cold_bytes(ThreadPool& pool);

// Bytes per second of one pass by all threads of `pool`, in pieces of 1 MB. Skips a smaller last piece.
double read_pass(ThreadPool& pool, const Buffer& bytes);

// Returns the best of several passes. On a shared machine the bandwidth changes from minute to minute: a
// figure stated as a share of it needs a measurement in the same run.
double read_bandwidth(ThreadPool& pool, const Buffer& cold_bytes);

}  // namespace nibble
