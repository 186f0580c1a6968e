// Measures the read bandwidth of this machine's memory, which bounds the speed of decoding.
#pragma once

#include <cstddef>

#include "core/tensors/buffer.h"
#include "core/threads/thread_pool.h"

namespace nibble {

// Larger than any cache: the largest L3 seen, reported by a virtual machine, is 300 MB.
inline constexpr size_t kColdBytes{size_t{768} << 20};

// Returns a buffer of kColdBytes with every page written: unwritten pages share one zero page, which stays in
// a cache. The contents are BF16 numbers around 0.01, so that kernels that read them meet no subnormals.
Buffer make_cold_bytes(ThreadPool& pool);

// Reads `bytes` once with all threads of `pool`, in pieces of 1 MB; skips a smaller last piece. Returns the
// bytes read per second.
double read_pass(ThreadPool& pool, const Buffer& bytes);

// Returns the bytes per second of the fastest of several passes. On a shared machine the bandwidth changes
// from minute to minute. To state a speed as a share of the bandwidth, measure both in the same run.
double read_bandwidth(ThreadPool& pool, const Buffer& cold_bytes);

}  // namespace nibble
