// How kernels write the times of a step. One thread calls each; null: nobody asks.
#pragma once

#include "backend/cuda/ptx/registers.cuh"
#include "backend/cuda/step_times.h"

namespace nibble::cuda {

// Called behind wait_for_predecessor(): the kernels of the step before, which write an end as well, have ended.
__device__ inline void begin_step(StepTimes* times) {
  if (!times) return;
  times->begin_ns = now_ns();
  times->end_ns = 0;
}

__device__ inline void end_step(StepTimes* times) {
  if (times) atomicMax(&times->end_ns, now_ns());
}

}  // namespace nibble::cuda
