// From --speculate, or vLLM's --speculative-config, to the drafters of an engine.
#pragma once

#include <cstddef>

#include "core/settings.h"
#include "setup/capacity.h"
#include "setup/model.h"
#include "setup/resolve.h"
#include "speculative/speculator.h"

namespace nibble {

// Opens no file. Throws InputError that names the flag, and what is wrong with it.
speculative::SpeculationOptions read_speculation(const Settings& settings);

// A model that drafts for another, and its room: at most kMostDraftCacheBytes of keys and values.
struct DraftModelSetup {
  Model model;
  BackendOptions options;
};
inline constexpr size_t kMostDraftCacheBytes{size_t{2} << 30};

// Opens what was asked for to draft, and counts its memory: a draft head, for which the backend's options have a place, or a model.
// Nothing is loaded. Throws InputError where it does not fit the model.
void open_drafters(ResolvedSettings& setup, const Model& model, const Capacity& capacity);
// Loads the model that drafts, if there is one, into the setup's speculation: behind load(), because this refuses what memory lacks for
// both, and before engine_options().
void load_draft_model(ResolvedSettings& setup);

}  // namespace nibble
