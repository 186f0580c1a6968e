// How the last of several CTAs to end its part of some work finds out that it is the last, or how some of them wait for all, and go on with what
// all of them wrote.
#pragma once

#include "backend/cuda/ptx/atomic.cuh"

namespace nibble::cuda {

// True in the last of `count` CTAs that come here, whose loads past L1 (__ldcg) then find all that any thread of any of them stored before. All
// threads of a CTA call it. The ticket is 0 before and after.
//
// One thread fences for its CTA: it has synchronised with the others, and what it releases includes what they stored. A fence waits for
// what its warp has under way, and those of a multiprocessor wait for each other, so a __threadfence() in each warp costs as many times more.
__device__ inline bool is_last_of(unsigned* ticket, unsigned count) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) is_last = increment_up_to(ticket, count - 1) == count - 1;
  __syncthreads();
  return is_last;
}

// CTAs that wait for each other: they must all be resident at once. What is_last_of() says of loads and fences holds here as well. The ticket
// counts in its lower half who has come, in its upper half who has gone again.
class Meeting {
 public:
  // `count` CTAs come, below 2^16.
  __device__ Meeting(unsigned* ticket, unsigned count) : ticket_(ticket), count_(count) {}

  // Each of them calls this.
  __device__ void come() const {
    __syncthreads();
    if (threadIdx.x == 0) add_in_order(ticket_, 1);
  }
  // Those that go on with what all wrote call these two.
  __device__ void wait() const {
    if (threadIdx.x == 0)
      while (load_acquire(ticket_) % kGone != count_) {
      }
    __syncthreads();
  }
  __device__ void go(unsigned num_waiting) const {
    if (threadIdx.x == 0 && add_in_order(ticket_, kGone) / kGone == num_waiting - 1) *ticket_ = 0;
  }

 private:
  static constexpr unsigned kGone{1 << 16};
  unsigned* const ticket_;
  const unsigned count_;
};

}  // namespace nibble::cuda
