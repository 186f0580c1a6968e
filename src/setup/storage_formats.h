// The formats in which a model runs.
#pragma once

#include "model/ops.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble {

// Returns the formats in which the parts of the model run: as stored (synthetic weights: as in the released
// checkpoint), or as the flags quantise them.
StorageFormats formats_of(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
