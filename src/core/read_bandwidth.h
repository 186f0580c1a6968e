// Measures the read bandwidth of this machine's memory, by which decoding is bound.
#pragma once

#include <cstddef>

#include "core/buffer.h"
#include "core/thread_pool.h"

namespace nibble {

// Larger than any cache: the largest L3 seen, reported by a virtual machine, is 300 MB.
inline constexpr size_t kColdBytes{size_t{768} << 20};

// A buffer of kColdBytes, all written: pages never written all map to one zero page, which stays in a cache.
// The pattern is BF16 numbers around 0.01: kernels that read it meet no subnormals.
Buffer make_cold_bytes(ThreadPool& pool);

// Bytes per second of one pass by all threads of `pool`, in pieces of 1 MB; a smaller last piece is left out.
double read_pass(ThreadPool& pool, const Buffer& bytes);

// The best of several passes. On a shared machine the bandwidth changes from minute to minute: measure it in
// the same run as the figures that are stated as shares of it.
double read_bandwidth(ThreadPool& pool, const Buffer& cold_bytes);

}  // namespace nibble
