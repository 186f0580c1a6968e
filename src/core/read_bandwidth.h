// Measures how fast this machine reads its memory. Decoding is bound by that, so its speed is stated as a share of it.
#pragma once

#include <cstddef>

#include "core/buffer.h"
#include "core/thread_pool.h"

namespace nibble {

// More than any cache: 300 MB of level 3 are the most that a virtual machine has shown so far.
inline constexpr size_t kColdBytes{size_t{768} << 20};

// Makes kColdBytes that all threads have written once: pages that were never written are all mapped to one page of zeros, which
// stays in a cache. The pattern is BF16 numbers around 0.01, so that kernels which read them meet no subnormals.
Buffer make_cold_bytes(ThreadPool& pool);

// Bytes per second that the threads of `pool` read together in one pass; a thread that is done takes the next piece of 1 MB. A
// last piece that is not whole is left out.
double read_pass(ThreadPool& pool, const Buffer& bytes);

// The best of a few passes. On a machine that is shared with others it changes from one minute to the next: measure it in the
// run whose figures are stated as shares of it.
double read_bandwidth(ThreadPool& pool, const Buffer& cold_bytes);

}  // namespace nibble
