// Reads mapped weights once in file order at full disk speed, or the first answer would wait page by page.
#pragma once

#include "core/progress.h"
#include "model/weights.h"

namespace nibble {

void read_weights(const Weights& weights, const ReportProgress& report);

}  // namespace nibble
