#include "tests/backend/cuda/emulated/emulated_gpu.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

constinit thread_local uint3 threadIdx{}, blockIdx{}, blockDim{}, gridDim{};

namespace nibble::emulated {

constinit thread_local SharedMemory shared_memory{};

namespace {

constexpr size_t kStackBytes{size_t{32} << 10};
constexpr unsigned kLanes{32}, kBarriers{16};

// A fiber begins by its context, and is left and entered again by its jump: swapcontext() asks the system each time.
struct Fiber {
  ucontext_t context;
  jmp_buf jump;
  bool has_begun, has_ended;
};
// A warp, and the values that its lanes give each other. Two rounds alternate: a lane may be at the next while others still read this one's.
struct Warp {
  unsigned num_arrived, round;
  std::array<std::array<uint8_t, kExchangeBytes>, kLanes> given[2];
};
struct Barrier {
  unsigned num_arrived, round;
};

// A thread of the host, which runs one CTA after the other.
class Multiprocessor {
 public:
  Multiprocessor(unsigned num_threads, const std::function<void()>& kernel)
      : num_threads_(num_threads),
        kernel_(kernel),
        fibers_(num_threads),
        warps_((num_threads + kLanes - 1) / kLanes),
        stacks_(new uint8_t[num_threads * kStackBytes]) {}

  void run_cta(unsigned seed);
  void yield() {
    if (_setjmp(fibers_[current_].jump) == 0) _longjmp(scheduler_, 1);
  }
  void sync(unsigned barrier, unsigned num_threads) {
    Barrier& at = barriers_[barrier];
    const unsigned round = at.round;
    if (++at.num_arrived >= num_threads) {
      at.num_arrived = 0;
      ++at.round;
      return;
    }
    while (at.round == round) yield();
  }
  void sync_all() { sync(0, num_running_); }
  const uint8_t* exchange(const void* own, size_t bytes) {
    Warp& warp = warps_[current_ / kLanes];
    const unsigned round = warp.round;
    auto& given = warp.given[round % 2];
    std::memcpy(given[current_ % kLanes].data(), own, bytes);
    if (++warp.num_arrived == std::min(kLanes, num_threads_)) {
      warp.num_arrived = 0;
      ++warp.round;
    }
    while (warp.round == round) yield();
    return given[0].data();
  }

 private:
  static void begin();
  // Apart from each other: what returns twice must not have the locals of a loop around it.
  [[gnu::noinline]] void prepare(unsigned thread);
  [[gnu::noinline]] void enter(Fiber& fiber);

  const unsigned num_threads_;
  const std::function<void()>& kernel_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::unique_ptr<uint8_t[]> stacks_;
  unsigned num_running_{0}, current_{0};
  std::array<Barrier, kBarriers> barriers_{};
  jmp_buf scheduler_;
};

thread_local Multiprocessor* multiprocessor;

void Multiprocessor::begin() {
  Multiprocessor& own = *multiprocessor;
  own.kernel_();
  own.fibers_[own.current_].has_ended = true;
  --own.num_running_;
  Barrier& all = own.barriers_[0];  // nobody waits for threads that have ended
  if (own.num_running_ > 0 && all.num_arrived == own.num_running_) {
    all.num_arrived = 0;
    ++all.round;
  }
  _longjmp(own.scheduler_, 1);
}

void Multiprocessor::prepare(unsigned thread) {
  Fiber& fiber = fibers_[thread];
  fiber.has_begun = fiber.has_ended = false;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stacks_.get() + thread * kStackBytes;
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, &Multiprocessor::begin, 0);
}

void Multiprocessor::enter(Fiber& fiber) {
  if (_setjmp(scheduler_) != 0) return;
  if (fiber.has_begun) _longjmp(fiber.jump, 1);
  fiber.has_begun = true;
  setcontext(&fiber.context);
}

void Multiprocessor::run_cta(unsigned seed) {
  constexpr uint64_t kMostTurns{500'000};  // some 20 s; a check's kernel ends within hundreds
  num_running_ = num_threads_;
  std::fill(warps_.begin(), warps_.end(), Warp{});
  barriers_ = {};
  for (unsigned thread = 0; thread < num_threads_; ++thread) prepare(thread);
  const auto num_warps = static_cast<unsigned>(warps_.size());
  for (uint64_t turn = 0; num_running_ > 0; ++turn) {
    seed = seed * 1664525 + 1013904223;
    const unsigned first = (seed >> 16) % num_warps;
    for (unsigned w = 0; w < num_warps; ++w)
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        const unsigned thread = (first + w) % num_warps * kLanes + lane;
        if (thread >= num_threads_ || fibers_[thread].has_ended) continue;
        current_ = thread;
        threadIdx.x = thread;
        enter(fibers_[thread]);
      }
    if (turn % 4 == 3) std::this_thread::yield();
    if (turn == kMostTurns) {
      std::fprintf(stderr, "a kernel does not end: CTA (%u, %u)\n", blockIdx.x, blockIdx.y);
      std::abort();
    }
  }
}

}  // namespace

void yield() { multiprocessor->yield(); }
void sync_cta() { multiprocessor->sync_all(); }
void sync_some(int barrier, int num_threads) {
  multiprocessor->sync(static_cast<unsigned>(barrier), static_cast<unsigned>(num_threads));
}
const uint8_t* exchange_bytes(const void* own, size_t bytes) { return multiprocessor->exchange(own, bytes); }

void run(const dim3& grid, const dim3& threads, size_t shared_bytes, const std::function<void()>& kernel) {
  constexpr size_t kAlignment{1024};
  const unsigned num_ctas = grid.x * grid.y * grid.z;
  std::atomic<unsigned> next{0};
  const auto run_ctas = [&] {
    const size_t room = (shared_bytes + kAlignment) / kAlignment * kAlignment;
    const std::unique_ptr<uint8_t, decltype(&std::free)> shared(
        static_cast<uint8_t*>(std::aligned_alloc(kAlignment, room)), &std::free);
    Multiprocessor own(threads.x, kernel);
    multiprocessor = &own;
    shared_memory = {shared.get(), static_cast<uint32_t>(shared_bytes)};
    blockDim = {threads.x, threads.y, threads.z};
    gridDim = {grid.x, grid.y, grid.z};
    for (unsigned cta = next++; cta < num_ctas; cta = next++) {
      std::memset(shared.get(), 0xCD, room);
      blockIdx = {cta % grid.x, cta / grid.x % grid.y, cta / grid.x / grid.y};
      own.run_cta(cta);
    }
  };
  std::vector<std::thread> residents;
  for (unsigned i = 0; i < std::min(num_ctas, kMostResidents); ++i) residents.emplace_back(run_ctas);
  for (std::thread& each : residents) each.join();
}

}  // namespace nibble::emulated
