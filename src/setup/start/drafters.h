// Opens and loads drafters that have weights: a draft head or a draft model.
#pragma once

#include <cstddef>

#include "setup/model/model.h"
#include "setup/plan/capacity.h"
#include "setup/settings/resolved_settings.h"

namespace nibble {

// Limit of a draft model's KV cache in bytes. Exceeded only if a single sequence needs more.
inline constexpr size_t kMostDraftCacheBytes{size_t{2} << 30};

// Opens the draft head or draft model of the settings, without loading. Stores a head in the backend options,
// and counts a draft model's memory. Throws InputError if head or draft model do not match the model.
void open_drafters(ResolvedSettings& setup, const Model& model, const Capacity& capacity);
// Loads the draft model, if any. Call it after load(), which checks that memory suffices, and before
// engine_options().
void load_draft_model(ResolvedSettings& setup);

}  // namespace nibble
