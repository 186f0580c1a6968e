// Opens and loads the drafters that have weights of their own: a draft head or a draft model.
#pragma once

#include <cstddef>

#include "setup/capacity.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble {

// Most bytes of KV cache of a draft model, unless one sequence needs more.
inline constexpr size_t kMostDraftCacheBytes{size_t{2} << 30};

// Opens the draft head or draft model that the settings name, and counts the memory of a draft
// model. Loads nothing. A draft head goes into the backend options. Throws InputError if head or
// draft model do not match the model.
void open_drafters(ResolvedSettings& setup, const Model& model, const Capacity& capacity);
// Loads the draft model, if any, into setup.speculation. Call it after load(), which checks that memory
// suffices for both models, and before engine_options().
void load_draft_model(ResolvedSettings& setup);

}  // namespace nibble
