// Compares the distributions of a quantised and an unquantised model over the same windows of a text.
#pragma once

#include <optional>
#include <string>

#include "backend/backend.h"
#include "core/progress.h"
#include "text/tokenizer.h"

namespace nibble::cli {

struct QualityComparison {
  double mean_kl{0}, p99_kl{0};  // KL(unquantised || quantised) per token, in nats: mean and 99th percentile
  double top1_agreement{0};      // share of positions where the likeliest token is the same
  double perplexity{0}, unquantised_perplexity{0};
  int num_windows{0};
  size_t num_scored{0};  // tokens
};

// Windows and `report` are as in measure_perplexity. Both backends were made with `room`, apart from its formats.
QualityComparison compare_models(Backend& quantised, Backend& unquantised, const BackendOptions& room,
                                 const Tokenizer& tokenizer, const std::string& text, int window,
                                 std::optional<int> limit, const ReportProgress& report = {});

}  // namespace nibble::cli
