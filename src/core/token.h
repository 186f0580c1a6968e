// A token's place in the vocabulary. A plain integer: rows of the embedding are looked up by it, files store it.
#pragma once

#include <cstdint>

namespace nibble {

using TokenId = int32_t;

}  // namespace nibble
