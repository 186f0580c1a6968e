// The setup of a process in a group (--nodes): the secret, its share of the model, and the facts that all
// nodes compare.
#pragma once

#include <optional>
#include <string>

#include "model/config.h"
#include "nodes/node_links.h"
#include "nodes/secret.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble {

// Returns the first line of the file, or the value of NIBBLE_SECRET. Throws InputError if neither is set.
nodes::Secret read_secret(const std::optional<std::string>& file);

// Returns the configuration of this process's share of the model. For a device it is that of the whole model,
// because the device's own options state the share.
Config config_here(const Config& whole, const ResolvedSettings& setup);

// Returns the options with which this node joins the group. Throws InputError if the model cannot be split
// this way.
nodes::NodeOptions node_options(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
