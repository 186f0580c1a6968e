// Decides token by token which answers a request may get. The engine calls fill_mask() before it samples a
// token, and accept() with that token. All functions throw InputError if a grammar needs more memory or work
// than limits.h allows; the constraint is then unusable, and the request fails.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/tokens/token.h"

namespace nibble::grammar {

class Constraint {
 public:
  virtual ~Constraint() = default;
  // Returns a copy in the same state, for another answer to the same prompt.
  virtual std::unique_ptr<Constraint> fork() const = 0;
  // Sets the bits of the tokens that may come next (at least one) and clears all others. Token t is bit t %
  // 32 of word t / 32. `mask` covers every token of the model's vocabulary, including control tokens.
  virtual void fill_mask(std::span<uint32_t> mask) = 0;
  // Advances by the token. If the token may not come next, returns false and changes nothing.
  virtual bool accept(TokenId token) = 0;
  // Returns the tokens that must come next, often none, split as the model would write them. Changes nothing.
  virtual std::vector<TokenId> forced_tokens() = 0;
};

}  // namespace nibble::grammar
