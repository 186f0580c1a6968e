#pragma once

#include <optional>
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
  int most_sequences{0};  // maximum number of concurrent sequences of `context` tokens

  struct Row {
    int num_sequences{0};
    // Free tokens in full layers besides these sequences; negative: the sequences do not fit.
    int64_t free_tokens{0};
  };
  std::vector<Row> rows{};
};

struct Predictions {
  std::string command_line, model;
  PredictedDevice device;
  int count{1};
  PredictedLink link{};  // between the GPUs, if count > 1
  std::string refusal;   // why nibble cannot run the model on this GPU; empty if it can
  int max_batch_tokens{0};
  std::vector<PredictedTest> tests;
  std::vector<PredictedTest> of_experts;  // the same tests with --expert-parallel; empty if not given
  PredictedMemory memory;
  Request request;  // for `replicas`
  std::vector<PredictedReplicas> replicas;
};

void print_text(const Predictions& found);
void print_json(const Predictions& found);

}  // namespace nibble::cli
