// Agreement of a backend with golden data, prompt by prompt.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/progress.h"
#include "model/golden/golden.h"

namespace nibble::cli {

struct GoldenResult {
  std::string name;
  int num_tokens{0};
  GoldenDifference difference;
  std::optional<PositionsDifference> from_rounded;  // from what AnswerRounded says
  bool is_within{false};                            // each of them
};

// The length of the longest prompt with its continuation, in tokens.
int longest(const GoldenSet& golden);

// Makes a prompt's golden data again with a reference that rounds as the backend does. The backend is compared with both.
using AnswerRounded = std::function<GoldenPrompt(const GoldenPrompt&)>;

// Compares the first `limit` prompts, or all. `report` counts the tokens of prompts that are done.
std::vector<GoldenResult> compare_golden(Backend& backend, const BackendOptions& room,
                                         const GoldenSet& golden, const GoldenTolerance& tolerance,
                                         const AnswerRounded& answer_rounded = {},
                                         const ReportProgress& report = {});

}  // namespace nibble::cli
