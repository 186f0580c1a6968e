// Stages in shared memory, through which producer warps pass data to consumer warps of a CTA. A stage's
// barrier `full` signals that the stage's data has arrived, `empty` that all consumers have read the data.
// Shape defines kStages, kStageBytes, kCopyLanes (arrivals that make a stage full) and kWarps (warps that
// read each stage).
#pragma once

#include "backend/cuda/ptx/copy.cuh"

namespace nibble::cuda {

template <typename Shape>
class Stages {
 public:
  // All threads of the CTA construct the stages together.
  __device__ explicit Stages(uint8_t* memory)
      : memory_(shared_address(memory)), is_first_lane_(threadIdx.x % 32 == 0), full_(memory_ + kBarriers) {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < Shape::kStages; ++stage) {
        init_barrier(full_ + stage * 8, Shape::kCopyLanes);
        init_barrier(full_ + kToEmpty + stage * 8, Shape::kWarps);
      }
      fence_barrier_init();
    }
    __syncthreads();
  }
  __device__ uint32_t address() const { return stage_; }
  __device__ uint32_t full() const { return full_; }
  __device__ void wait_until_full() const { wait(full_, phase_); }
  __device__ void wait_until_empty() const {
    wait(full_ + kToEmpty, phase_ ^ 1);
  }  // returns at once for stages that were never filled
  __device__ void tell_when_full() const { arrive_after_copies(full_); }
  __device__ void tell_empty() const { arrive_as_warp(full_ + kToEmpty); }  // call it in whole warps
  // Functions with an argument `n` are for warps that count stages themselves instead of calling advance().
  // `n`: number of stages that were filled before the wanted one, since the kernel began. If `n` is the same
  // in the whole warp, the compiler uses uniform registers.
  __device__ uint32_t address(unsigned n) const {
    return memory_ + n % Shape::kStages * static_cast<unsigned>(Shape::kStageBytes);
  }
  __device__ void wait_until_empty(unsigned n) const { wait(full(n) + kToEmpty, n / Shape::kStages % 2 ^ 1); }
  __device__ void wait_until_full(unsigned n) const { wait(full(n), n / Shape::kStages % 2); }
  __device__ bool is_full(unsigned n) const { return has_ended(full(n), n / Shape::kStages % 2); }
  __device__ void tell_empty(unsigned n) const { arrive_as_warp(full(n) + kToEmpty); }
  __device__ void tell_full(unsigned n) const { arrive_as_warp(full(n)); }
  __device__ void advance() {
    stage_ += Shape::kStageBytes;
    full_ += 8;
    if (stage_ != memory_ + kBarriers) return;
    stage_ = memory_;
    full_ = memory_ + kBarriers;
    phase_ ^= 1;
  }

 private:
  __device__ void arrive_as_warp(uint32_t barrier) const {
    __syncwarp();
    if (is_first_lane_) arrive(barrier);
  }
  __device__ uint32_t full(unsigned n) const { return memory_ + kBarriers + n % Shape::kStages * 8; }

  static constexpr int kBarriers{Shape::kStages * Shape::kStageBytes}, kToEmpty{8 * Shape::kStages};

  const uint32_t memory_;
  const bool is_first_lane_;
  uint32_t stage_{memory_}, full_;  // shared-memory addresses of the current stage and of its `full` barrier
  uint32_t phase_{0};
};

constexpr int stages_bytes(int num_stages, int stage_bytes) {  // returns bytes of the stages and barriers
  return num_stages * (stage_bytes + 2 * static_cast<int>(sizeof(uint64_t)));
}

}  // namespace nibble::cuda
