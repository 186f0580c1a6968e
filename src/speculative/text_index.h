// Finds earlier occurrences of a text's last tokens. A hash of every run of `order` tokens leads to the
// latest place after such a run, and each place leads to the previous place with the same hash. Adding a
// token takes constant time. The caller bounds the number of places it examines, so repetitive text costs no
// more than other text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/token.h"

namespace nibble::speculative {

class TextIndex {
 public:
  explicit TextIndex(int order);

  void push(TokenId token);
  std::span<const TokenId> tokens() const { return tokens_; }
  int order() const { return order_; }

  // Returns the latest place that may follow the last `order` tokens of `context`; 0: none. Hashes collide:
  // check with num_matched().
  int latest(std::span<const TokenId> context) const;
  // Returns the place before `place` with the same hash; 0: none.
  int before(int place) const { return before_[static_cast<size_t>(place)]; }
  // Counts how many of the last tokens of `context` equal the tokens before `place`, at most `most`.
  int num_matched(std::span<const TokenId> context, int place, int most) const;

 private:
  size_t bucket(std::span<const TokenId> run) const;
  void link(int place);

  int order_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> before_;  // by place; a place is the number of tokens before it
  std::vector<int32_t> latest_;  // by hash; at least twice as many entries as tokens
};

}  // namespace nibble::speculative
