// Compares a backend with golden data, prompt by prompt.
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
  std::optional<PositionsDifference> from_rounded;  // difference from the result of AnswerRounded
  bool is_within{false};                            // both differences are within their tolerances
};

// Returns the length of the longest prompt with its continuation, in tokens.
int longest(const GoldenSet& golden);

// Recomputes the golden data of a prompt with a reference that rounds like the backend. The
// backend is compared with both.
using AnswerRounded = std::function<GoldenPrompt(const GoldenPrompt&)>;

// What a backend is compared with.
struct GoldenReference {
  const GoldenSet& golden;
  const GoldenTolerance& tolerance;
  AnswerRounded answer_rounded{};
};

// Runs all prompts and compares the results. `report` counts the tokens of finished prompts.
std::vector<GoldenResult> compare_golden(Backend& backend, const BackendOptions& room,
                                         const GoldenReference& reference, const ReportProgress& report = {});

}  // namespace nibble::cli
