// Reads mapped weights once in file order, at full disk speed; otherwise page faults slow the first answer.
#pragma once

#include "core/console/progress.h"
#include "model/weights.h"

namespace nibble {

void read_weights(const Weights& weights, const ReportProgress& report);

}  // namespace nibble
