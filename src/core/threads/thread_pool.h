// A thread pool for loops: each free thread claims the next item. The caller works too and waits only for
// items that have started, never for a thread that is not running. So while other programs use the cores, a
// loop takes no longer than on one thread. With OpenMP, where every loop waits for all threads, decoding the
// bundled model on such a machine fell from several hundred tokens per second to 3 (docs/decisions/0004).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace nibble {

int num_usable_cores();  // cores that this process may use, limited by affinity and CPU quota

class ThreadPool {
 public:
  // `num_threads` includes the caller of for_each(). 0: one thread per usable core.
  explicit ThreadPool(int num_threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(item, thread) once for each item < num_items, in any order, with thread < num_threads(), and
  // returns when all are done. A body must not throw. Calls of for_each() must not overlap or nest.
  template <typename Body>
  void for_each(ptrdiff_t num_items, const Body& body) {
    run(
        num_items,
        [](const void* context, ptrdiff_t item, int thread) {
          (*static_cast<const Body*>(context))(item, thread);
        },
        &body);
  }

 private:
  using Call = void (*)(const void* context, ptrdiff_t item, int thread);

  void run(ptrdiff_t num_items, Call call, const void* context);
  void work(int thread);
  uint64_t run_items(int thread);

  // Number of the loop (upper 32 bits) and of its next item (lower 32 bits). A thread claims an item by a
  // compare-and-swap of both numbers. The swap fails if a new loop has begun since the thread read the
  // members below.
  std::atomic<uint64_t> next_{0};
  std::atomic<uint32_t> num_items_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> context_{nullptr};
  std::atomic<uint32_t> num_done_{0};
  std::atomic<bool> is_ending_{false};
  std::vector<std::jthread> workers_;
};

}  // namespace nibble
