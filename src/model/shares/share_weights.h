// The weights that a rank has of a model (model/shares/share.h).
#pragma once

#include <memory>

#include "core/progress.h"
#include "model/shares/share.h"
#include "model/weights.h"

namespace nibble {

// Parts that lie together are views of the whole, as whole experts do; of others, the columns of `o` and units of experts, there are copies, and
// the pages of a mapped file that they came from are released. Biases that another rank adds are zeros. The whole is kept no
// longer than by its storage, and has no blocks. Reports layers.
std::shared_ptr<const Weights> share_of(const Weights& whole, const Share& share,
                                        const ReportProgress& report = {});

}  // namespace nibble
