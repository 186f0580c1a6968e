// From one row of logits to a token, on the host. Backends without a sampler of their own call it.
#pragma once

#include <span>

#include "core/token.h"
#include "model/batch.h"

namespace nibble {

// `position`: of the token to be chosen; with the seed it fixes the draw. `logits` [V] is scratch afterwards.
SampledToken sample(std::span<float> logits, const OutputRow& row, int position);

}  // namespace nibble
