#include "core/threads/thread_pool.h"

#include <sched.h>

#include "core/errors/check.h"
#include "core/system/cgroup.h"
#include "core/threads/thread_name.h"

namespace nibble {
namespace {

constexpr uint32_t kClosed{UINT32_MAX};  // item number of a closed loop: no thread may claim an item

// Number of spins before a thread sleeps. These spins take about 50 us, which is longer than the time between
// two loops of a forward pass.
constexpr int kMaxSpins{1000};

constexpr uint64_t pack(uint32_t loop, uint32_t item) { return uint64_t{loop} << 32 | item; }
constexpr uint32_t loop_of(uint64_t next) { return static_cast<uint32_t>(next >> 32); }
constexpr uint32_t item_of(uint64_t next) { return static_cast<uint32_t>(next); }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins first, then sleeps, until `value` is no longer `old`.
template <typename T>
void await_change(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kMaxSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

int num_usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  // The call fails if the machine has more cores than cpu_set_t holds.
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return cores_within(CPU_COUNT(&cores), cpu_quota(own_cgroup()));
}

ThreadPool::ThreadPool(int num_threads) {
  NIBBLE_CHECK(num_threads >= 0, "{} threads", num_threads);
  if (num_threads == 0) num_threads = num_usable_cores();
  for (int thread = 1; thread < num_threads; ++thread)
    workers_.emplace_back([this, thread] { work(thread); });
}

ThreadPool::~ThreadPool() {
  is_ending_.store(true, std::memory_order_relaxed);
  next_.store(pack(loop_of(next_.load(std::memory_order_relaxed)) + 1, kClosed), std::memory_order_seq_cst);
  next_.notify_all();
}

// Claims and runs items until all are claimed. Returns the last value of next_, for await_change().
uint64_t ThreadPool::run_items(int thread) {
  uint64_t next = next_.load(std::memory_order_acquire);
  while (item_of(next) != kClosed) {
    const uint32_t num_items = num_items_.load(std::memory_order_relaxed);
    const Call call = call_.load(std::memory_order_relaxed);
    const void* context = context_.load(std::memory_order_relaxed);
    const uint32_t item = item_of(next);
    if (item >= num_items) break;
    if (!next_.compare_exchange_weak(next, pack(loop_of(next), item + 1), std::memory_order_acq_rel,
                                     std::memory_order_acquire))
      continue;
    call(context, item, thread);
    if (num_done_.fetch_add(1, std::memory_order_seq_cst) + 1 == num_items) num_done_.notify_one();
    next = next_.load(std::memory_order_acquire);
  }
  return next;
}

void ThreadPool::work(int thread) {
  name_thread("compute");
  while (true) {
    const uint64_t seen = run_items(thread);
    // Relaxed order is enough: the destructor sets is_ending_ before it changes next_. A thread that misses
    // the flag here also misses the change, so await_change() returns and the thread reads the flag again.
    if (is_ending_.load(std::memory_order_relaxed)) return;
    await_change(next_, seen);
  }
}

void ThreadPool::run(ptrdiff_t num_items, Call call, const void* context) {
  NIBBLE_CHECK(num_items >= 0 && num_items < ptrdiff_t{kClosed}, "{} items", num_items);
  if (workers_.empty() || num_items <= 1) {
    for (ptrdiff_t item = 0; item < num_items; ++item) call(context, item, 0);
    return;
  }
  // Close the old loop before its members change. Otherwise a late thread could see the new num_items_ and
  // claim an item that the old loop does not have.
  const uint32_t loop = loop_of(next_.load(std::memory_order_relaxed)) + 1;
  next_.store(pack(loop, kClosed), std::memory_order_release);
  num_items_.store(static_cast<uint32_t>(num_items), std::memory_order_relaxed);
  call_.store(call, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  num_done_.store(0, std::memory_order_relaxed);
  // seq_cst: the change of next_ must be visible before notify_all() looks for sleeping threads.
  next_.store(pack(loop, 0), std::memory_order_seq_cst);
  next_.notify_all();

  run_items(0);
  for (uint32_t done = num_done_.load(std::memory_order_acquire); done != num_items;
       done = num_done_.load(std::memory_order_acquire))
    await_change(num_done_, done);
}

}  // namespace nibble
