#pragma once

#include <string>
#include <vector>

#include "backend/prediction.h"
#include "cli/predict/predicted_test.h"
#include "cli/predict/serving.h"

namespace nibble::cli {

// How `nibble serve` would divide each GPU's memory.
struct PredictedMemory {
  size_t total_bytes{0}, budget_bytes{0};  // budget: limit for weights, workspace and KV cache together
  size_t weight_bytes{0}, workspace_bytes{0}, sequence_bytes{0};
  int context{0};         // tokens per sequence
  int most_sequences{0};  // maximum number of concurrent sequences if each has `context` tokens

  struct Row {
    int num_sequences{0};
    // Tokens that full-attention layers could hold in addition to these sequences; negative: too little room.
    int64_t free_tokens{0};
  };
  std::vector<Row> rows{};
};

struct Predictions {
  std::string command_line, model;
  PredictedDevice device;
  int count{1};
  PredictedLink link{};  // link between the GPUs; unused for a single GPU
  std::string refusal;   // reason why nibble cannot run the model on this GPU; empty if it can
  int max_batch_tokens{0};
  std::vector<PredictedTest> tests;
  std::vector<PredictedTest> of_experts;  // `tests` with --expert-parallel; empty without this flag
  PredictedMemory memory;
  Request request;  // the request that every client of `replicas` sends
  std::vector<PredictedReplicas> replicas;
};

void print_text(const Predictions& found);
void print_json(const Predictions& found);

}  // namespace nibble::cli
