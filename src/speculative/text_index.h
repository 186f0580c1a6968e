// Finds earlier occurrences of a text's last tokens. A place is a point in the text, given as the number of
// tokens before it. A table has, for each hash of `order` consecutive tokens, the latest place after such
// tokens. Each place leads to the previous place with the same hash. Adding a token takes constant time.
// Callers limit the number of places that a search compares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tokens/token.h"

namespace nibble::speculative {

class TextIndex {
 public:
  explicit TextIndex(int order);

  void push(TokenId token);
  std::span<const TokenId> tokens() const { return tokens_; }
  int order() const { return order_; }

  // Returns the latest place after tokens with the same hash as the last `order` tokens of `context`; 0:
  // none. The tokens themselves may differ: num_matched() compares them.
  int latest(std::span<const TokenId> context) const;
  // Returns the previous place with the same hash; 0: none.
  int before(int place) const { return before_[static_cast<size_t>(place)]; }
  // Returns the number of last tokens of `context` that equal the tokens before `place`, at most `most`.
  int num_matched(std::span<const TokenId> context, int place, int most) const;

 private:
  size_t bucket(std::span<const TokenId> run) const;
  void link(int place);

  int order_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> before_;  // [place]: the previous place with the same hash
  std::vector<int32_t> latest_;  // [hash]: the latest place; size: at least two entries per token
};

}  // namespace nibble::speculative
