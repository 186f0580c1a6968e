#pragma once

#include <cstdint>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/step_exchange.h"

namespace nibble::cuda {

// sample() chooses a token per row of logits, with requested logprobs. Waits for earlier kernels (pdl.cuh).
struct SampleArgs {
  const SampleRow* rows;  // [rows of the launch]
  const RowInput* input;  // rows of the step
  float* logits;          // [rows, V]; changed by biases and penalties, then restored
  int vocab;              // at most kMaxVocab
  bool are_greedy;        // whether every row needs only its likeliest token
  uint64_t* best;         // [rows, kBestCtas], scratch
  unsigned* tickets;      // [rows]; zero before and after a launch
  SampleResult* results;  // [rows]
  // To report results to the host: step number, destination, first row's output index. null: no report.
  const uint32_t* step{nullptr};
  StepExchange exchange{};
  int first_output{0};
};
inline constexpr int kBestCtas{64};
void sample(const LaunchContext& gpu, int num_rows, const SampleArgs& args);

void prepare_sample();  // sets the kernel's shared-memory limit (prepare.h)

}  // namespace nibble::cuda
