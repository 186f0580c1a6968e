// Reads mapped weights once in the order of the file, at the disk's full speed. Else the first answer would wait for the disk page
// by page.
#pragma once

#include "core/progress.h"
#include "model/weights.h"

namespace nibble {

void read_weights(const Weights& weights, const ReportProgress& report);

}  // namespace nibble
