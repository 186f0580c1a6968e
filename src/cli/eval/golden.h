// Agreement of a backend with golden data, prompt by prompt.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/golden.h"

namespace nibble::cli {

struct GoldenResult {
  std::string name;
  int num_tokens{0};
  GoldenDifference difference;
  bool is_within{false};
};

// The most positions that a prompt of the set takes, continuation included.
int longest(const GoldenSet& golden);

// `limit`: at most so many prompts.
std::vector<GoldenResult> compare_golden(Backend& backend, const BackendOptions& room,
                                         const GoldenSet& golden, const GoldenTolerance& tolerance,
                                         std::optional<int> limit);

}  // namespace nibble::cli
