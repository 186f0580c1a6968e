#pragma once

#include "model/ops.h"
#include "setup/model/model.h"
#include "setup/settings/resolved_settings.h"

namespace nibble {

// Returns the formats of weights and KV cache in use: set by flags, or as stored (synthetic: as OpenAI's).
StorageFormats formats_of(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
