// Reads mapped weights once, from start to end, so that the first answer does not wait for the disk page by page.
#pragma once

#include "core/progress.h"
#include "model/weights.h"

namespace nibble {

void read_weights(const Weights& weights, const ReportProgress& report);

}  // namespace nibble
