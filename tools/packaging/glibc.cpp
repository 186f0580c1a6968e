// Definitions of the symbols newer than glibc 2.28 that the compiled objects and libstdc++.a need, for the
// program of tools/package.
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <ctime>

namespace {

constexpr long long kNanosecondsPerSecond{1'000'000'000};
constexpr long long kLongestWait{kNanosecondsPerSecond};

long long nanoseconds(const timespec& time) { return time.tv_sec * kNanosecondsPerSecond + time.tv_nsec; }

long long now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return nanoseconds(time);
}

// Without pthread_cond_clockwait, a condition variable can wait only by the real-time clock, which may be set
// meanwhile. Waiting for at most a second bounds the error. Returning 0 before the time is up is a spurious
// wakeup, which callers handle.
int wait_in_real_time(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                      const timespec& until) {
  const long long left = nanoseconds(until) - now(clock);
  if (left <= 0) return ETIMEDOUT;
  const long long end = now(CLOCK_REALTIME) + (left < kLongestWait ? left : kLongestWait);
  const timespec real{.tv_sec = end / kNanosecondsPerSecond, .tv_nsec = end % kNanosecondsPerSecond};
  const int result = pthread_cond_timedwait(condition, mutex, &real);
  return result == ETIMEDOUT && now(clock) < nanoseconds(until) ? 0 : result;
}

}  // namespace

extern "C" {

// glibc 2.32. libstdc++ skips atomic operations while it is true.
char __libc_single_threaded = 0;

// glibc 2.30. std::condition_variable uses it for timeouts of steady_clock.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  using Wait = int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static Wait* const wait = reinterpret_cast<Wait*>(dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
  if (wait) return wait(condition, mutex, clock, until);
  return wait_in_real_time(condition, mutex, clock, *until);
}

}  // extern "C"
