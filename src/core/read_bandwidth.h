// Measures the read bandwidth of this machine's memory. Decoding is bound by it, so decode speed
// is stated as a share of it.
#pragma once

#include <cstddef>

#include "core/buffer.h"
#include "core/thread_pool.h"

namespace nibble {

// Larger than any cache: the largest L3 seen so far, as a virtual machine reported it, is 300 MB.
inline constexpr size_t kColdBytes{size_t{768} << 20};

// Returns a buffer of kColdBytes, all written once: pages that were never written all map to one zero
// page, which would stay in a cache. The pattern is BF16 numbers around 0.01, so that kernels that
// read it meet no subnormals.
Buffer make_cold_bytes(ThreadPool& pool);

// Returns the bytes per second that the threads of `pool` reach together in one pass. The work is split
// dynamically into pieces of 1 MB; a last piece that is smaller is left out.
double read_pass(ThreadPool& pool, const Buffer& bytes);

// Returns the best of several passes. On a shared machine the bandwidth changes from minute to minute:
// measure it in the same run as the figures that are stated as shares of it.
double read_bandwidth(ThreadPool& pool, const Buffer& cold_bytes);

}  // namespace nibble
