// The place of a process among the machines that share a model: --nodes, --node-rank, --head, --secret-file,
// --expert-parallel.
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
  std::vector<int> parts;  // of the model that each node takes
  ExpertSplit split;       // --expert-parallel
  nodes::tcp::endpoint head;
  nodes::Secret secret;
  // Set by the command: the version of this program, and what is done when a node is lost (nodes::NodeOptions::on_lost).
  std::string program{};
  std::function<void(const std::string&)> on_lost{};
};

// The first line of the file, or what NIBBLE_SECRET holds. Throws InputError where there is none.
nodes::Secret read_secret(const std::optional<std::string>& file);

// The configuration of what this process has of the model, for backends whose own options do not say it.
Config config_here(const Config& whole, const ResolvedSettings& setup);

// What a node joins with. Throws InputError where the model can't be cut so.
nodes::NodeOptions node_options(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
