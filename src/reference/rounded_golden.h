// Golden data that the reference makes itself, rounding as another backend does.
#pragma once

#include "core/thread_pool.h"
#include "model/golden/golden.h"
#include "model/weights.h"
#include "reference/rounding.h"

namespace nibble::reference {

// The reference's answer to the ids of `prompt`: logits, the likeliest tokens and the router's margin, all of every position.
GoldenPrompt rounded_golden(const Weights& weights, const GoldenPrompt& prompt, const Rounding& rounding,
                            ThreadPool& pool);

}  // namespace nibble::reference
