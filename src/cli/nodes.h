#pragma once

#include <optional>
#include <string>

#include "setup/settings/resolved_settings.h"

namespace nibble::cli {

// Commands with --nodes call this before they use the model. On the head it returns nullopt at once. On
// another node it runs the head's steps until the head ends, and returns the exit code. If a node is lost,
// every process exits with kNodeLost; the head waits two seconds first, so that clients receive the error.
std::optional<int> follow_head(ResolvedSettings& setup, const std::string& model);

}  // namespace nibble::cli
