// Says token by token what the answer of a request may be. The engine asks it before a token is sampled and tells it what was chosen.
//
// All functions throw InputError where a grammar turns out to need more memory or work than limits.h allows; the constraint is then of
// no more use, and the request fails.
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
  // A copy at the same place, for another answer to the same prompt.
  virtual std::unique_ptr<Constraint> fork() const = 0;
  // Sets the bits of the tokens that may come next and clears all others: bit token % 32 of word token / 32. `mask` has a bit for
  // every token of the model's vocabulary, control tokens included. At least one bit is set.
  virtual void fill_mask(std::span<uint32_t> mask) = 0;
  // Goes on behind this token. Returns false, and has not moved, if it may not come next.
  virtual bool accept(TokenId token) = 0;
  // The tokens that must come next, as the model would write them; often none. They need not be sampled. It does not move.
  virtual std::vector<TokenId> forced_tokens() = 0;
};

}  // namespace nibble::grammar
