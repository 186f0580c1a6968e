// Threads of the host, which compute the expected results.
#pragma once

#include "core/threads/thread_pool.h"

namespace nibble::cuda::verify {

inline ThreadPool& host_threads() {
  static ThreadPool pool(0);
  return pool;
}

}  // namespace nibble::cuda::verify
