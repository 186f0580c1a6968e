// The formats of dense layers on the device.
#pragma once

#include "model/quantize.h"
#include "model/weights.h"

namespace nibble::cuda {

// Returns the requested formats, except that a group whose matrices are FP8 in the checkpoint gets kE4m3: the
// codes and row scales of the checkpoint are kept. Throws InputError if a group would need two formats, or a
// conversion from FP8.
DenseFormats dense_formats(const Weights& weights, const DenseFormats& requested);

}  // namespace nibble::cuda
