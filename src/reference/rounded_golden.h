// Golden data that the reference computes itself, with the roundings of another backend.
#pragma once

#include "core/thread_pool.h"
#include "model/golden/golden.h"
#include "model/weights.h"
#include "reference/rounding.h"

namespace nibble::reference {

// Logits, likeliest tokens and router margins at every position for the ids of `prompt`.
GoldenPrompt rounded_golden(const Weights& weights, const GoldenPrompt& prompt, const Rounding& rounding,
                            ThreadPool& pool);

}  // namespace nibble::reference
