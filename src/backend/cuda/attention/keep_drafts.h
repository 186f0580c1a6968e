// Declares the launch function keep_drafts() and its arguments. This header is C++17, because CUDA code
// includes it.
#pragma once

#include "backend/cuda/attention/args.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/draft_slots.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/step_exchange.h"

namespace nibble::cuda {

// keep_drafts() runs after sampling, in steps with draft trees. It moves K and V of accepted drafts to the
// slots of their positions in all layers, and reports these drafts to the host (StepExchange::kept).
struct KeepDraftsArgs {
  const DraftRun* runs;  // [num_runs]
  ChosenTokens choices;
  StepInput input;
  const LayerPages* layers;  // [num_layers], in device memory; all layers have the same format
  int num_kv_heads;
  const uint32_t* step;  // number of the step, whose parity selects the buffer of `exchange`
  StepExchange exchange;
};
void keep_drafts(const LaunchContext& gpu, int num_runs, int num_layers, const KeepDraftsArgs& args);

void prepare_keep_drafts();  // call it once before the first launch

}  // namespace nibble::cuda
