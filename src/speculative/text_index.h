// Finds where a text had the same last tokens before. A hash of every run of `order` tokens leads to the latest place behind such a run,
// and each place to the one before it with the same hash. Constant time for each token that is added; whoever searches bounds the
// number of places that are looked at, so repetitive text costs no more than other text.
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

  // The latest place that may lie behind the last `order` tokens of `context`; 0: none. Hashes collide: see num_matched().
  int latest(std::span<const TokenId> context) const;
  // The place before `place` with the same hash; 0: none.
  int before(int place) const { return before_[static_cast<size_t>(place)]; }
  // Counts how many of the last tokens of `context` lie before `place`, at most `most`.
  int num_matched(std::span<const TokenId> context, int place, int most) const;

 private:
  size_t bucket(std::span<const TokenId> run) const;
  void link(int place);

  int order_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> before_;  // [place]; a place is a number of tokens before it
  std::vector<int32_t> latest_;  // [hash], twice as many as tokens at least
};

}  // namespace nibble::speculative
