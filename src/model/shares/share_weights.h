// The weights of one rank (model/shares/share.h).
#pragma once

#include <memory>

#include "core/console/progress.h"
#include "model/shares/share.h"
#include "model/weights.h"

namespace nibble {

// Returns the weights of the rank. Contiguous parts, such as whole experts, are views of `whole` and keep its
// storage alive. Other parts (columns of `o`, units of experts) are copied, and their pages of a mapped file
// released. Biases that another rank adds are zeros. No matrix of `whole` may be in blocks. Reports progress
// in layers.
std::shared_ptr<const Weights> share_of(const Weights& whole, const Share& share,
                                        const ReportProgress& report = {});

}  // namespace nibble
