#pragma once

#include <cstdint>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/step_exchange.h"

namespace nibble::cuda {

// sample() chooses a token for each row of logits, and computes the requested log-probabilities. Its kernels
// wait for the results of earlier kernels themselves (pdl.cuh).
struct SampleArgs {
  const SampleRow* rows;  // [rows of the launch]: sampling parameters
  const RowInput* input;  // [T]: rows of the step, with tokens and positions
  float* logits;          // [rows, V]: changed by biases and penalties, and restored afterwards
  int vocab;              // at most kMaxVocab
  bool are_greedy;        // whether every row needs only its likeliest token; sample() then saves a launch
  uint64_t* best;         // [rows, kBestCtas], scratch: likeliest token of each CTA, packed with its logit
  unsigned* tickets;      // [rows]: number of finished CTAs; zero between launches
  SampleResult* results;  // [rows], output
  // The next three fields serve reports of results to the host. `step`: number of the step; null: no reports.
  // `exchange`: destination of the reports. `first_output`: output index of the launch's first row.
  const uint32_t* step{nullptr};
  StepExchange exchange{};
  int first_output{0};
};
inline constexpr int kBestCtas{64};  // number of CTAs that search a row for its likeliest token
void sample(const LaunchContext& gpu, int num_rows, const SampleArgs& args);

void prepare_sample();  // call it once before the first launch

}  // namespace nibble::cuda
