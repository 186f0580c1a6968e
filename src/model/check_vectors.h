// Checks the values of a model's vectors (sinks, norm weights and biases) and the codes of its FP8 matrices.
#pragma once

#include "model/weights.h"

namespace nibble {

// Largest accepted magnitudes. Sinks are logits: the sinks of the released models are -2.06 to 5.75, and a
// sink of 100 would take all weight of the softmax.
inline constexpr float kLargestSink{100.0F}, kLargestNormOrBias{1e6F};

// Throws InputError, which names the tensor and the value, if a value is NaN, infinite or above its bound, or
// if an E4M3 code is NaN. Reads every vector (80 MB of gpt-oss-120b) and every FP8 matrix.
void check_vectors(const Weights& weights);

}  // namespace nibble
