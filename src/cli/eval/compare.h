// How far a model's distributions move when it is held in other formats: both read the same windows of a text.
#pragma once

#include <optional>
#include <string>

#include "backend/backend.h"
#include "core/progress.h"
#include "text/tokenizer.h"

namespace nibble::cli {

struct QualityComparison {
  double mean_kl{0}, p99_kl{0};  // KL(unquantised || quantised) of a token, in nats: mean and 99th percentile
  double top1_agreement{0};      // share of the tokens where the likeliest one is the same
  double perplexity{0}, unquantised_perplexity{0};
  int num_windows{0};
  size_t num_scored{0};  // tokens
};

// Windows and `report` as in measure_perplexity. Both backends were made with `room`, but for its formats.
QualityComparison compare_models(Backend& quantised, Backend& unquantised, const BackendOptions& room,
                                 const Tokenizer& tokenizer, const std::string& text, int window,
                                 std::optional<int> limit, const ReportProgress& report = {});

}  // namespace nibble::cli
