#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "core/console/progress.h"
#include "core/text/json.h"
#include "model/golden/golden.h"

namespace nibble::cli {

struct GoldenResult {
  std::string name;
  int num_tokens{0};
  GoldenDifference difference;
  // Difference from the result of GoldenReference::answer_rounded; nullopt if that function is not set.
  std::optional<PositionsDifference> from_rounded;
  bool is_within{false};  // both differences are within their tolerances
};

// Returns the number of tokens of the longest prompt with its continuation.
int longest(const GoldenSet& golden);

// Recomputes the results of a golden prompt with the reference backend, rounding as the tested backend does.
using AnswerRounded = std::function<GoldenPrompt(const GoldenPrompt&)>;

struct GoldenReference {  // expected results: `golden`, and also the results of `answer_rounded` if set
  const GoldenSet& golden;
  const GoldenTolerance& tolerance;
  AnswerRounded answer_rounded{};
};

// `report` counts tokens of finished prompts.
std::vector<GoldenResult> compare_golden(Backend& backend, const BackendOptions& room,
                                         const GoldenReference& reference, const ReportProgress& report = {});

// Report the results, with the tolerances.
void print_golden_table(const std::vector<GoldenResult>& results, const GoldenTolerance& tolerance,
                        std::string_view backend);
Json golden_json(const std::vector<GoldenResult>& results, const GoldenTolerance& tolerance,
                 std::string_view backend);

}  // namespace nibble::cli
