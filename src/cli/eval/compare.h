// Compares the token distributions of a quantised and an unquantised model on the same windows of a text.
#pragma once

#include "backend/backend.h"
#include "cli/eval/perplexity.h"
#include "core/console/progress.h"

namespace nibble::cli {

struct QualityComparison {
  double mean_kl{0}, p99_kl{0};  // KL(unquantised || quantised) per token, in nats: mean and 99th percentile
  double top1_agreement{0};      // share of positions at which both models have the same likeliest token
  double perplexity{0}, unquantised_perplexity{0};
  int num_windows{0};
  size_t num_scored{0};  // number of compared tokens
};

// Returns how far the results of `quantised` are from those of `unquantised`. Both backends must be made with
// the options `room`, except for their formats. `report` counts compared tokens.
QualityComparison compare_models(Backend& quantised, Backend& unquantised, const BackendOptions& room,
                                 const TextWindows& windows, const ReportProgress& report = {});

}  // namespace nibble::cli
