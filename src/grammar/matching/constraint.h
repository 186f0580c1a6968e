// Decides token by token what the answer of a request may be. The engine calls fill_mask() before it samples
// a token, and accept() with that token. All functions throw InputError if a grammar needs more memory or
// work than limits.h allows; the constraint is then unusable, and the request fails.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/token.h"

namespace nibble::grammar {

class Constraint {
 public:
  virtual ~Constraint() = default;
  // A copy in the same state, for another answer to the same prompt.
  virtual std::unique_ptr<Constraint> fork() const = 0;
  // Sets the bits of the tokens that may come next, at least one, and clears all others: bit token % 32 of
  // word token / 32. `mask` has a bit for every token of the model's vocabulary, including control tokens.
  virtual void fill_mask(std::span<uint32_t> mask) = 0;
  // Advances by the token. Returns false and changes nothing if it may not come next.
  virtual bool accept(TokenId token) = 0;
  // The tokens that must come next, as the model would write them, often none. Changes nothing.
  virtual std::vector<TokenId> forced_tokens() = 0;
};

}  // namespace nibble::grammar
