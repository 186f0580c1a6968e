// The weights of one rank (model/shares/share.h).
#pragma once

#include <memory>

#include "core/progress.h"
#include "model/shares/share.h"
#include "model/weights.h"

namespace nibble {

// Returns the rank's part of the weights. Contiguous parts, such as whole experts, are views of `whole`. The
// columns of `o` and units of experts are copied, and the pages of a mapped file that they came from are
// released. Biases that another rank adds become zeros. `whole` must have no blocks. The result keeps the
// storage of `whole` alive. Reports progress in layers.
std::shared_ptr<const Weights> share_of(const Weights& whole, const Share& share,
                                        const ReportProgress& report = {});

}  // namespace nibble
