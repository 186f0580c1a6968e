// Turns settings, which are text and numbers as given by flags, into the types that the program works with.
// This happens once, before a model is opened, so that a wrong flag is refused immediately.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "core/settings.h"
#include "setup/backends.h"
#include "setup/places.h"
#include "setup/requirements.h"
#include "setup/tuning.h"
#include "speculative/speculator.h"

namespace nibble {

struct DraftModelSetup;
struct NodeSetup;

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
  // The draft model (setup/speculation.h); null: none.
  std::shared_ptr<const DraftModelSetup> draft_model{};
  size_t draft_model_bytes{0};  // memory that the draft model takes
  // --nodes: this process's role in the group (setup/nodes.h); null: this machine runs the model alone.
  std::shared_ptr<NodeSetup> nodes{};
  Places places{};
};

// Reads only the file of nibble tune and --secret-file. Throws an InputError that names
// the flag and what is accepted.
ResolvedSettings resolve(const Settings& settings);

void set_threads(ResolvedSettings& setup, int num_threads);  // same effect as --threads

// Returns `setup` without quantisation of dense layers and KV cache. If --experts-activations was given,
// experts on a CPU take float activations. Experts on a GPU take bfloat16 activations in prompts too.
ResolvedSettings unquantised(ResolvedSettings setup);

// Whether the backend takes the block matrices that with_elements() (model/convert_blocks.h) leaves
// unconverted.
bool takes_blocks(const ResolvedSettings& setup);

}  // namespace nibble
