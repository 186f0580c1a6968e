// The result of `nibble predict`, as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/prediction.h"
#include "cli/predict/predicted_test.h"
#include "cli/predict/serving.h"

namespace nibble::cli {

// The memory of each GPU, as `nibble serve` would divide it.
struct PredictedMemory {
  size_t total_bytes{0}, budget_bytes{0};  // of which weights and cache may take so much
  size_t weight_bytes{0}, workspace_bytes{0}, sequence_bytes{0};
  int context{0};         // tokens of a sequence
  int most_sequences{0};  // of so many tokens that fit at once

  struct Row {
    int num_sequences{0};
    int64_t free_tokens{
        0};  // of full layers that the cache has beside those sequences; negative: these do not fit
  };
  std::vector<Row> rows{};
};

struct Predictions {
  std::string command_line, model;
  PredictedDevice device;
  int count{1};
  PredictedLink link{};  // where there are several
  std::string refusal;   // why nibble does not run the model there; empty where it does
  int max_batch_tokens{0};
  std::vector<PredictedTest> tests;
  std::vector<PredictedTest>
      of_experts;  // the same tests where each GPU has whole experts; empty: not asked for
  PredictedMemory memory;
  Request request;  // of the replicas
  std::vector<PredictedReplicas> replicas;
};

void print_text(const Predictions& found);
void print_json(const Predictions& found);

}  // namespace nibble::cli
