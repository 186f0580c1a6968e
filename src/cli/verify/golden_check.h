// Comparison of a model with golden data: a child process runs `nibble eval --golden`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/verify/verdict.h"

namespace nibble::cli {

// Returns the path of the golden data in a model's folder, or an empty path if the folder has none. Packages
// include them for the bundled model. `model_folder` is empty for synthetic models.
std::filesystem::path golden_of(const std::filesystem::path& model_folder);

// Returns the verdict on a child that ran `nibble eval --golden --json`. Its finding has the number of
// prompts and the largest distance of the logits, in units of the tolerance.
Verdict golden_verdict_of(const ChildResult& child);

}  // namespace nibble::cli
