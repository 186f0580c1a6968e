// A set of tokens as a bit mask: token t is bit t % 32 of word t / 32. Samplers on GPUs read this layout too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/tokens/token.h"

namespace nibble {

inline constexpr size_t mask_words(int num_tokens) { return (static_cast<size_t>(num_tokens) + 31) / 32; }

inline constexpr bool has_token(std::span<const uint32_t> mask, TokenId token) {
  const auto index = static_cast<size_t>(token);
  return mask[index / 32] >> (index % 32) & 1;
}

inline constexpr void add_token(std::span<uint32_t> mask, TokenId token) {
  const auto index = static_cast<size_t>(token);
  mask[index / 32] |= 1u << (index % 32);
}

}  // namespace nibble
