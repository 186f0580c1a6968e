// What commands do that can run on several nodes (--nodes).
#pragma once

#include <optional>
#include <string>

#include "setup/resolve.h"

namespace nibble::cli {

// Called before anything else is done with the model. A node that follows runs here what its head says, and the result is the exit code.
// The head, and a process alone, go on: the result is nothing. Where a node is lost the process ends with code kNodeLost, the head after
// the time that requests need to hear of it.
std::optional<int> follow_head(ResolvedSettings& setup, const std::string& model);

}  // namespace nibble::cli
