#pragma once

#include <optional>
#include <string>

#include "setup/resolved_settings.h"

namespace nibble::cli {

// Commands with --nodes call this before they use the model. On a node other than the head, runs the head's
// steps and returns the exit code when the head ends. Otherwise returns nullopt at once. If a node is lost,
// the process exits with kNodeLost, the head after two seconds in which clients receive the error.
std::optional<int> follow_head(ResolvedSettings& setup, const std::string& model);

}  // namespace nibble::cli
