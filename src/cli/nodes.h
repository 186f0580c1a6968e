// Runs a command on a group of nodes (--nodes).
#pragma once

#include <optional>
#include <string>

#include "setup/resolved_settings.h"

namespace nibble::cli {

// Called by each command that can run on several nodes, before it does anything else with the model. On a
// node other than the head, runs the steps that the head sends and returns the exit code when the head ends.
// On the head, and without --nodes, returns nullopt immediately, and the command continues. If a node is
// lost, the process exits with kNodeLost; the head waits two seconds first, so that clients receive the
// error.
std::optional<int> follow_head(ResolvedSettings& setup, const std::string& model);

}  // namespace nibble::cli
