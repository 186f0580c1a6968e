// Settings are text and numbers as flags give them. resolve() turns them into the types that the program works with, once, before
// a model is opened, so that a wrong flag is refused at once.
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
  BackendOptions options{};  // all but the numbers of pages, which depend on the model (setup/capacity.h)
  OwnOptions own{};
  std::optional<int> threads{};    // --threads; not set: as nibble tune found, or all cores
  std::optional<Tuning> tuning{};  // what nibble tune found for this machine, where the backend can be tuned
  std::vector<Requirement> requirements{};
  std::optional<int> context{};  // --context
  int max_sequences{0};
  double device_memory_share{0};                  // --gpu-memory-utilization
  bool shares_prefixes{false};                    // --prefix-cache
  speculative::SpeculationOptions speculation{};  // --speculate, --speculative-config
  std::shared_ptr<const DraftModelSetup>
      draft_model{};            // the model that drafts (setup/speculation.h); null: none does
  size_t draft_model_bytes{0};  // that it takes
  std::shared_ptr<NodeSetup>
      nodes{};  // --nodes: this process among those that share the model (setup/nodes.h)
  Places places{};
};

// Reads no file but that of nibble tune. Throws InputError that names the flag and says what is accepted.
ResolvedSettings resolve(const Settings& settings);

void set_threads(ResolvedSettings& setup, int num_threads);  // as --threads does

// The same without quantised layers and KV cache; experts that --experts-activations names take float, and bfloat16 of prompts.
ResolvedSettings unquantised(ResolvedSettings setup);

// True if the backend takes matrices in blocks, as with_elements() leaves them.
bool takes_blocks(const ResolvedSettings& setup);

}  // namespace nibble
