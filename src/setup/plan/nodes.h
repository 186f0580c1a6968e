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

// Returns the secret that all nodes share: the first line of `file`, or without a file the value of the
// variable NIBBLE_SECRET. Throws InputError if both are missing.
nodes::Secret read_secret(const std::optional<std::string>& file);

// Returns the configuration of this process's share of the model. For a GPU backend, returns `whole`: there
// the backend's options (CudaOptions) state the share.
Config config_here(const Config& whole, const ResolvedSettings& setup);

// Returns the options with which this node joins the group. Throws InputError if the model can't be split
// into the shares of --tensor-split, or into equal shares without it.
nodes::NodeOptions node_options(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
