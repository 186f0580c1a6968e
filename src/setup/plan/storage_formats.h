#pragma once

#include "model/ops.h"
#include "setup/model/model.h"
#include "setup/settings/resolved_settings.h"

namespace nibble {

// Returns the formats in which weights and KV cache are stored: those that flags choose, otherwise those of
// the model's files. Synthetic weights have the formats of OpenAI's checkpoints.
StorageFormats formats_of(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
