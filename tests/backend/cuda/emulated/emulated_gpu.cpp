#include "tests/backend/cuda/emulated/emulated_gpu.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

constinit thread_local uint3 threadIdx{}, blockIdx{}, blockDim{}, gridDim{};

namespace nibble::emulated {

constinit thread_local SharedMemory shared_memory{};

namespace {

constexpr size_t kStackBytes{size_t{32} << 10};
constexpr unsigned kLanes{32}, kBarriers{16};

struct Launch {
  dim3 grid, threads;
  size_t shared_bytes;
  const std::function<void()>& kernel;
  std::atomic<unsigned> next_cta{0};
  unsigned num_ctas() const { return grid.x * grid.y * grid.z; }
};

// A fiber starts once through its ucontext. Later switches use longjmp, because switching a ucontext makes a
// system call each time.
struct Fiber {
  jmp_buf jump;
  std::unique_ptr<uint8_t[]> stack;  // null: the fiber has not started
};
// The condition that a GPU thread waits for: `number` differs from `before`. Until then the thread does not
// run.
struct Wait {
  const unsigned* number{nullptr};
  unsigned before{0};
  bool has_ended{false};
  bool goes_on() const { return !has_ended && (!number || *number != before); }
};
// A warp and the values that its lanes exchange. Two rounds alternate, because a lane may already be in the
// next round while other lanes still read this one.
struct Warp {
  unsigned num_arrived, round;
  std::array<std::array<uint8_t, kExchangeBytes>, kLanes> given[2];
};
struct Barrier {
  unsigned num_arrived, round;
};

[[noreturn]] void stop(const char* why) {
  std::fprintf(stderr, "%s: CTA (%u, %u)\n", why, blockIdx.x, blockIdx.y);
  std::abort();
}

// A host thread that runs one CTA after another.
class Multiprocessor {
 public:
  void run(Launch& launch);
  void poll() {
    has_polled_ = true;
    leave();
  }
  void sync(unsigned barrier, unsigned num_threads) {
    Barrier& at = barriers_[barrier];
    if (++at.num_arrived < num_threads) return wait_for(at.round);
    at.num_arrived = 0;
    ++at.round;
  }
  void sync_all() { sync(0, num_running_); }
  const uint8_t* exchange(const void* own, size_t bytes) {
    Warp& warp = warps_[current_ / kLanes];
    auto& given = warp.given[warp.round % 2];
    std::memcpy(given[current_ % kLanes].data(), own, bytes);
    if (++warp.num_arrived < std::min(kLanes, num_threads_)) {
      wait_for(warp.round);
    } else {
      warp.num_arrived = 0;
      ++warp.round;
    }
    return given[0].data();
  }

 private:
  static void run_threads();
  void run_cta(unsigned seed);
  void end_thread();
  void leave() {
    if (_setjmp(fibers_[current_].jump) == 0) _longjmp(scheduler_, 1);
  }
  void wait_for(const unsigned& number) {
    waits_[current_] = {&number, number};
    leave();
  }
  // begin() and enter() are separate functions, because a function in which setjmp() returns twice must not
  // contain the locals of a loop.
  [[gnu::noinline]] void begin(Fiber& fiber);
  [[gnu::noinline]] void enter(Fiber& fiber);

  unsigned num_threads_{0};
  const std::function<void()>* kernel_{nullptr};
  // Fibers and their stacks are kept: making new ones for each launch would take longer than most kernels.
  std::vector<Fiber> fibers_;
  std::vector<Wait> waits_;
  std::vector<Warp> warps_;
  unsigned num_running_{0}, current_{0};
  bool has_polled_{false};
  std::array<Barrier, kBarriers> barriers_{};
  jmp_buf scheduler_;
};

thread_local Multiprocessor* multiprocessor;

// Main function of a fiber. Runs the fiber's GPU thread of one CTA after another.
void Multiprocessor::run_threads() {
  Multiprocessor& own = *multiprocessor;
  for (;;) {
    (*own.kernel_)();
    own.end_thread();
    own.leave();
  }
}

void Multiprocessor::end_thread() {
  waits_[current_].has_ended = true;
  --num_running_;
  Barrier& all = barriers_[0];  // threads that have ended no longer count at the barrier
  if (num_running_ > 0 && all.num_arrived == num_running_) {
    all.num_arrived = 0;
    ++all.round;
  }
}

void Multiprocessor::begin(Fiber& fiber) {
  fiber.stack.reset(new uint8_t[kStackBytes]);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, &Multiprocessor::run_threads, 0);
  if (_setjmp(scheduler_) == 0) setcontext(&context);
}

void Multiprocessor::enter(Fiber& fiber) {
  if (_setjmp(scheduler_) == 0) _longjmp(fiber.jump, 1);
}

void Multiprocessor::run_cta(unsigned seed) {
  constexpr unsigned kMostPolls{5'000'000};  // about 20 s; correct kernels poll hundreds of times
  num_running_ = num_threads_;
  std::fill(warps_.begin(), warps_.end(), Warp{});
  std::fill(waits_.begin(), waits_.end(), Wait{});
  barriers_ = {};
  const auto num_warps = static_cast<unsigned>(warps_.size());
  for (unsigned num_polls = 0; num_running_ > 0;) {
    seed = seed * 1664525 + 1013904223;
    const unsigned first = (seed >> 16) % num_warps;
    bool goes_on = has_polled_ = false;
    for (unsigned w = 0; w < num_warps; ++w)
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        const unsigned thread = (first + w) % num_warps * kLanes + lane;
        if (thread >= num_threads_ || !waits_[thread].goes_on()) continue;
        waits_[thread].number = nullptr;
        goes_on = true;
        current_ = thread;
        threadIdx.x = thread;
        Fiber& fiber = fibers_[thread];
        if (fiber.stack) {
          enter(fiber);
        } else {
          begin(fiber);
        }
      }
    if (!goes_on) stop("all threads wait for each other");
    if (!has_polled_) continue;
    if (++num_polls % 4 == 0) std::this_thread::yield();
    if (num_polls == kMostPolls) stop("a kernel does not end");
  }
}

void Multiprocessor::run(Launch& launch) {
  constexpr size_t kAlignment{1024};
  const size_t room = (launch.shared_bytes + kAlignment) / kAlignment * kAlignment;
  const std::unique_ptr<uint8_t, decltype(&std::free)> shared(
      static_cast<uint8_t*>(std::aligned_alloc(kAlignment, room)), &std::free);
  multiprocessor = this;
  shared_memory = {shared.get(), static_cast<uint32_t>(launch.shared_bytes)};
  blockDim = {launch.threads.x, launch.threads.y, launch.threads.z};
  gridDim = {launch.grid.x, launch.grid.y, launch.grid.z};
  num_threads_ = launch.threads.x;
  kernel_ = &launch.kernel;
  if (fibers_.size() < num_threads_) fibers_.resize(num_threads_);
  waits_.resize(num_threads_);
  warps_.resize((num_threads_ + kLanes - 1) / kLanes);
  for (unsigned cta = launch.next_cta++; cta < launch.num_ctas(); cta = launch.next_cta++) {
    std::memset(shared.get(), 0xCD, room);
    blockIdx = {cta % launch.grid.x, cta / launch.grid.x % launch.grid.y,
                cta / launch.grid.x / launch.grid.y};
    run_cta(cta);
  }
}

// The GPU and its multiprocessors, which wait for launches.
class Gpu {
 public:
  ~Gpu() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    launched_.notify_all();
    for (std::thread& each : threads_) each.join();
  }
  void run(Launch& launch) {
    const std::lock_guard one_at_a_time(launching_);
    std::unique_lock lock(mutex_);
    launch_ = &launch;
    ++num_launches_;
    num_wanted_ = num_left_ = std::min(launch.num_ctas(), kMostResidents);
    while (threads_.size() < num_wanted_)
      threads_.emplace_back(
          [this, index = threads_.size(), seen = num_launches_ - 1] { serve(index, seen); });
    launched_.notify_all();
    ended_.wait(lock, [this] { return num_left_ == 0; });
  }

 private:
  void serve(size_t index, uint64_t seen) {
    Multiprocessor own;
    for (std::unique_lock lock(mutex_);;) {
      launched_.wait(lock, [&] { return is_over_ || (num_launches_ > seen && index < num_wanted_); });
      if (is_over_) return;
      seen = num_launches_;
      Launch& launch = *launch_;
      lock.unlock();
      own.run(launch);
      lock.lock();
      if (--num_left_ == 0) ended_.notify_one();
    }
  }

  std::mutex launching_, mutex_;
  std::condition_variable launched_, ended_;
  std::vector<std::thread> threads_;
  Launch* launch_{nullptr};
  uint64_t num_launches_{0};
  unsigned num_wanted_{0}, num_left_{0};
  bool is_over_{false};
};

}  // namespace

std::function<void(const void*, int)> on_prefetch;
std::function<void(const RecordedLaunch&)> on_launch;

void yield() { multiprocessor->poll(); }
void sync_cta() { multiprocessor->sync_all(); }
void sync_some(int barrier, int num_threads) {
  multiprocessor->sync(static_cast<unsigned>(barrier), static_cast<unsigned>(num_threads));
}
const uint8_t* exchange_bytes(const void* own, size_t bytes) { return multiprocessor->exchange(own, bytes); }

void run(const dim3& grid, const dim3& threads, size_t shared_bytes, const std::function<void()>& kernel) {
  static Gpu gpu;
  Launch launch{grid, threads, shared_bytes, kernel};
  gpu.run(launch);
}

}  // namespace nibble::emulated
