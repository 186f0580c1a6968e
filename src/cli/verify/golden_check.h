// Golden data of a model, compared by `nibble eval --golden` in a process of its own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/verify/verdict.h"

namespace nibble::cli {

// The golden data in the folder of a model, as packages have them for the bundled model; empty: it has none.
// Synthetic models have no folder.
std::filesystem::path golden_of(const std::filesystem::path& model_folder);

// The verdict on a child that ran `nibble eval --golden --json`. Its finding counts prompts, and compares the
// distance of the logits with its tolerance.
Verdict golden_verdict_of(const ChildResult& child);

}  // namespace nibble::cli
