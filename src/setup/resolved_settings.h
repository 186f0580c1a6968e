// Settings in the program's types, made by resolve() (setup/resolve.h).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/shares/share.h"
#include "nodes/node_links.h"
#include "setup/backends.h"
#include "setup/model.h"
#include "setup/places.h"
#include "setup/requirements.h"
#include "setup/tuning.h"
#include "speculative/speculator.h"

namespace nibble {

// Role in a group of nodes: --nodes, --node-rank, --head, --secret-file, --expert-parallel.
struct NodeSetup {
  int rank;
  std::vector<int> parts;  // relative share of the model of each node
  ExpertSplit split;       // --expert-parallel
  nodes::tcp::endpoint head;
  nodes::Secret secret;
  // Set by the command: this program's version, and nodes::NodeOptions::on_lost.
  std::string program{};
  std::function<void(const std::string&)> on_lost{};
};

struct DraftModelSetup {  // a draft model, and the options that size it (setup/drafters.h)
  Model model;
  BackendOptions options;
};

struct ResolvedSettings {
  const BackendRow* backend{nullptr};
  BackendOptions options{};  // without the page counts, which depend on the model (setup/capacity.h)
  OwnOptions own{};
  std::optional<int> threads{};    // --threads; nullopt: as found by nibble tune, else all cores
  std::optional<Tuning> tuning{};  // found by nibble tune for this machine; nullopt: none, or nothing to tune
  std::vector<Requirement> requirements{};
  std::optional<int> context{};  // --context
  int max_sequences{0};
  double device_memory_share{0};                  // --gpu-memory-utilization
  bool shares_prefixes{false};                    // --prefix-cache
  speculative::SpeculationOptions speculation{};  // --speculate, --speculative-config
  // Set by open_drafters() (setup/drafters.h); null: no draft model.
  std::shared_ptr<const DraftModelSetup> draft_model{};
  size_t draft_model_bytes{0};         // memory that the draft model takes
  std::shared_ptr<NodeSetup> nodes{};  // null: this machine runs the model alone
  Places places{};
};

void set_threads(ResolvedSettings& setup, int num_threads);  // same effect as --threads

// Without quantisation of dense layers and KV cache. Experts on a CPU take float activations if
// --experts-activations was given; experts on a GPU take bfloat16 activations in prompts too.
ResolvedSettings unquantised(ResolvedSettings setup);

// Whether the backend takes block matrices that with_elements() (model/convert_blocks.h) leaves unconverted.
bool takes_blocks(const ResolvedSettings& setup);

}  // namespace nibble
