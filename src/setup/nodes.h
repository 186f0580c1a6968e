// Multi-node setup of this process, from --nodes, --node-rank, --head, --secret-file and --expert-parallel.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nodes/node_links.h"
#include "setup/model.h"
#include "setup/resolve.h"

namespace nibble {

struct NodeSetup {
  int rank;
  std::vector<int> parts;  // relative share of the model of each node
  ExpertSplit split;       // --expert-parallel
  nodes::tcp::endpoint head;
  nodes::Secret secret;
  // Set by the command: the version of this program, and what to do when a node is lost
  // (nodes::NodeOptions::on_lost).
  std::string program{};
  std::function<void(const std::string&)> on_lost{};
};

// Returns the first line of the file, or the value of NIBBLE_SECRET. Throws InputError if neither is set.
nodes::Secret read_secret(const std::optional<std::string>& file);

// Returns the configuration of this process's share of the model. For a device it is that of the whole model,
// because the device's own options state the share.
Config config_here(const Config& whole, const ResolvedSettings& setup);

// Returns the options with which this node joins the group. Throws InputError if the model cannot be split
// this way.
nodes::NodeOptions node_options(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
