// Reads mapped weights once in file order, at the full speed of the disk. Otherwise the first answer would
// wait for the disk page by page.
#pragma once

#include "core/progress.h"
#include "model/weights.h"

namespace nibble {

void read_weights(const Weights& weights, const ReportProgress& report);

}  // namespace nibble
