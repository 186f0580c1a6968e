// Golden data that the reference computes itself, with the roundings of another backend.
#pragma once

#include "core/thread_pool.h"
#include "model/golden/golden.h"
#include "model/weights.h"
#include "reference/rounding.h"

namespace nibble::reference {

// Returns the reference's results for the ids of `prompt`: logits, likeliest tokens and router margins at
// every position.
GoldenPrompt rounded_golden(const Weights& weights, const GoldenPrompt& prompt, const Rounding& rounding,
                            ThreadPool& pool);

}  // namespace nibble::reference
