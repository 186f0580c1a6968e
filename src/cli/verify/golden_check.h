// Compares a model with golden data: a child process runs `nibble eval --golden`.
#pragma once

#include <filesystem>

#include "cli/verify/verdict.h"

namespace nibble::cli {

// Returns the path of the golden data in a model's folder; empty if the folder has none. Packages include
// golden data of the bundled model. `model_folder` is empty for synthetic models.
std::filesystem::path golden_of(const std::filesystem::path& model_folder);

// Returns the verdict on a child that ran `nibble eval --golden --json`. The finding has the number of
// prompts and the largest error of the logits, in units of the tolerance.
Verdict golden_verdict_of(const ChildResult& child);

}  // namespace nibble::cli
