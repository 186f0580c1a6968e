// The formats of dense layers on the device.
#pragma once

#include "model/quantize.h"
#include "model/weights.h"

namespace nibble::cuda {

// Returns the requested formats of qkv, o and lm_head, except that matrices that are FP8 in the checkpoint
// get kE4m3: the codes and row scales of the checkpoint are kept. Throws InputError if the matrices of qkv, o
// or lm_head would need two formats, or a conversion from FP8.
DenseFormats dense_formats(const Weights& weights, const DenseFormats& requested);

}  // namespace nibble::cuda
