// How fast this machine reads its memory: what speeds that memory bounds are given as shares of.
#pragma once

#include <cstddef>

#include "core/buffer.h"
#include "core/thread_pool.h"

namespace nibble {

// More than any cache: a level 3 of 300 MB is what the largest server has that a virtual machine of it shows.
inline constexpr size_t kColdBytes{size_t{768} << 20};

// kColdBytes, written once by all threads: pages that were never written are one page of zeros, read from a cache. The
// pattern is BF16 numbers around 0.01, so that a kernel that is fed with them meets no subnormals.
Buffer make_cold_bytes(ThreadPool& pool);

// Bytes per second that the threads of `pool` read together in one pass, in pieces of 1 MB as they come free. Of a last
// piece that is not whole nothing is read.
double read_pass(ThreadPool& pool, const Buffer& bytes);

// What they reach now, the best of a few passes. On a machine that is shared with others it changes from one minute to the
// next: measure it in the run whose figures are shares of it.
double read_bandwidth(ThreadPool& pool, const Buffer& cold_bytes);

}  // namespace nibble
