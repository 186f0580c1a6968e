#pragma once

#include "model/ops.h"
#include "setup/model.h"
#include "setup/resolved_settings.h"

namespace nibble {

// The formats of a running model: as stored (synthetic: as in the released checkpoint) or as flags quantise.
StorageFormats formats_of(const Model& model, const ResolvedSettings& setup);

}  // namespace nibble
