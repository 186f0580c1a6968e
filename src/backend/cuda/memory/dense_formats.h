// The formats of dense layers on the device.
#pragma once

#include "model/quantize.h"
#include "model/weights.h"

namespace nibble::cuda {

// Returns the requested formats, with kE4m3 for a group whose matrices are FP8 in the checkpoint: their codes
// and row scales are kept. Throws InputError if a group would need two formats, or a conversion from FP8.
DenseFormats dense_formats(const Weights& weights, const DenseFormats& requested);

}  // namespace nibble::cuda
