// Names the calling thread, for `top -H`, perf and tools that read /proc. Linux refuses a name of more than
// 15 characters.
#pragma once

#include <pthread.h>

namespace nibble {

inline void name_thread(const char* name) { ::pthread_setname_np(::pthread_self(), name); }

}  // namespace nibble
