// Golden data that the reference computes with the roundings of another backend.
#pragma once

#include "core/threads/thread_pool.h"
#include "model/golden/golden.h"
#include "model/weights.h"
#include "reference/rounding.h"

namespace nibble::reference {

// Returns logits, likeliest tokens and router margins at every position of `prompt`, computed from its ids.
GoldenPrompt rounded_golden(const Weights& weights, const GoldenPrompt& prompt, const Rounding& rounding,
                            ThreadPool& pool);

}  // namespace nibble::reference
