// Names a thread for `top -H`, perf, and measurements by /proc (tools/compare_servers.py).
#pragma once

#include <pthread.h>

namespace nibble {

// Names the calling thread. The kernel keeps 15 characters.
inline void name_thread(const char* name) { ::pthread_setname_np(::pthread_self(), name); }

}  // namespace nibble
