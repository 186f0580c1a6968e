// Index of a token in the vocabulary. A plain integer: it indexes the embedding, and files store it.
#pragma once

#include <cstdint>

namespace nibble {

using TokenId = int32_t;

}  // namespace nibble
