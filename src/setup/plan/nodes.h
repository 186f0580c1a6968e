// A process's setup in a --nodes group: the secret, its share of the model, and facts that nodes compare.
#pragma once

#include <optional>
#include <string>

#include "model/config.h"
#include "nodes/node_links.h"
#include "nodes/secret.h"
#include "setup/model/model.h"
#include "setup/settings/resolved_settings.h"

namespace nibble {

// Returns the first line of the file, or the variable NIBBLE_SECRET. Throws InputError if neither is set.
nodes::Secret read_secret(const std::optional<std::string>& file);

// Returns the configuration of this process's share of the model. For a GPU backend returns `whole`, because
// its backend options state the share.
Config config_here(const Config& whole, const ResolvedSettings& setup);

// Returns this node's options in the group. Throws InputError if the model can't be split into these shares.
nodes::NodeOptions node_options(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
