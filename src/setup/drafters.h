// Opens and loads drafters that have weights: a draft head or a draft model.
#pragma once

#include <cstddef>

#include "setup/capacity.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble {

// Largest KV cache of a draft model, unless one sequence needs more.
inline constexpr size_t kMostDraftCacheBytes{size_t{2} << 30};

// Opens the draft head (into the backend options) or draft model of the settings, and counts a draft model's
// memory. Loads nothing. Throws InputError if head or draft model do not match the model.
void open_drafters(ResolvedSettings& setup, const Model& model, const Capacity& capacity);
// Loads the draft model, if any. Call it after load(), which checks memory for both, before engine_options().
void load_draft_model(ResolvedSettings& setup);

}  // namespace nibble
