#include "backend/cuda/predict/batch_tokens.h"

#include <string>

#include "backend/cuda/predict/predict.h"

namespace nibble::cuda {
namespace {

// Limits of the default number of rows of a step. An H200 runs 8,192 tokens 25 % faster in one step than in
// four. A step of 8,192 rows takes 0.23 s and 2 GB of workspace.
constexpr int kMostRows{8192}, kLeastRows{2048};

double step_seconds(const std::string& gpu, int num_rows, int context) {
  const PredictedStep step{.num_tokens = num_rows, .context = context};
  return total_of(predict_on(gpu, *named_config("gpt-oss-120b"), {}, {}, step).operations) / 1e6;
}

}  // namespace

bool has_much_memory(const DeviceCaps& caps) { return caps.total_bytes >= size_t{64} << 30; }

int default_batch_tokens(const DeviceCaps& caps) {
  if (!has_much_memory(caps)) return kLeastRows;
  const std::string gpu = known_name_of(caps);
  int rows = kMostRows;
  while (!gpu.empty() && rows > kLeastRows && step_seconds(gpu, rows, rows) > kMostStepSeconds) rows /= 2;
  return rows;
}

int default_rows_with_answers(const DeviceCaps& caps) {
  const std::string gpu = known_name_of(caps);
  const int most = default_batch_tokens(caps);
  // The steps of a prompt of `most` tokens end at positions `rows`, 2 * `rows`, ..., `most`. The speed is
  // predicted for the mean of these numbers as the context.
  const auto speed = [&](int rows) { return rows / step_seconds(gpu, rows, (most + rows) / 2); };
  int rows = most;
  while (rows > kLeastRows && (gpu.empty() || speed(rows / 2) >= kMostSpeed * speed(most))) rows /= 2;
  return rows;
}

}  // namespace nibble::cuda
