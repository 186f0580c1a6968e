// Threads that share out the items of a loop. The caller is one of them and works like the rest: it waits for nobody who
// has not begun an item. So a loop takes no longer than on one thread where other programs hold the cores; with OpenMP,
// whose every loop waits for all of its threads, decoding the bundled model on such a machine fell from some hundred
// tokens per second to 3 (docs/decisions/0004).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace nibble {

int num_usable_cores();  // those that this process may run on

class ThreadPool {
 public:
  // At least one; the caller of for_each counts. 0: one for each usable core.
  explicit ThreadPool(int num_threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // body(item, thread) once for each item < num_items, in any order, with thread < num_threads(); returns when all are
  // done. A body does not throw. One caller at a time, and not from within a body.
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

  // Which loop it is (upper half) and its next item (lower half) in one word, so that who claims an item knows that the
  // loop has not ended meanwhile, and that what it has read of the loop below was that loop's.
  std::atomic<uint64_t> next_{0};
  std::atomic<uint32_t> num_items_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> context_{nullptr};
  std::atomic<uint32_t> num_done_{0};
  std::atomic<bool> is_ending_{false};
  std::vector<std::jthread> workers_;
};

}  // namespace nibble
