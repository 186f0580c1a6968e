// Turns --speculate, or vLLM's --speculative-config, into the drafters of an engine.
#pragma once

#include <cstddef>

#include "core/settings.h"
#include "setup/capacity.h"
#include "setup/model.h"
#include "setup/resolve.h"
#include "speculative/speculator.h"

namespace nibble {

// Parses the flags and opens no file. Throws an InputError that names the flag and what is wrong with it.
speculative::SpeculationOptions read_speculation(const Settings& settings);

// A draft model, and the options that size it: at most kMostDraftCacheBytes of KV cache,
// unless one sequence needs more.
struct DraftModelSetup {
  Model model;
  BackendOptions options;
};
inline constexpr size_t kMostDraftCacheBytes{size_t{2} << 30};

// Opens the draft head or draft model that the settings name, and counts the memory of a draft
// model. Loads nothing. A draft head goes into the backend options. Throws InputError if head or
// draft model do not match the model.
void open_drafters(ResolvedSettings& setup, const Model& model, const Capacity& capacity);
// Loads the draft model, if any, into setup.speculation. Call it after load(), which checks that memory
// suffices for both models, and before engine_options().
void load_draft_model(ResolvedSettings& setup);

}  // namespace nibble
