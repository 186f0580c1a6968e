// Finds the numbers of further characters after which a text can end. Used for JSON strings with both a
// pattern and a length limit: a counter enforces the limit, so the limit adds no states to the automaton. A
// text may continue if it can still end at a length that the counter and the pattern both allow. A(n) is the
// set of expressions that match a text of exactly n characters. A(n) depends only on A(n - 1), so the
// sequence of these sets becomes periodic.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "grammar/automata/decoder.h"
#include "grammar/automata/expressions.h"
#include "grammar/automata/liveness.h"

namespace nibble::grammar {

class RemainingLengths {
 public:
  // `classes`: the automaton's classes. Throws InputError if the expression has too many derivatives.
  RemainingLengths(Expressions& expressions, const CharacterClasses& classes, Liveness& liveness,
                   Expression root);

  // Whether the expression, a derivative of the root, has a text of `min` to `max` characters.
  bool has_length(Expression expression, uint32_t min, uint32_t max) const;
  // Returns the smallest n such that the expression has texts of every length from n on; kUnlimited if none
  // exists.
  uint32_t ends_from(Expression expression) const;
  // Like ends_from(), but returns kUnlimited if the expression also has a shorter text.
  uint32_t only_ends_from(Expression expression) const;

 private:
  struct Lengths {
    uint32_t place{0};             // second index of the expression in ends_
    uint32_t from{kUnlimited};     // see ends_from()
    bool has_shorter_ones{false};  // the expression has texts shorter than `from`
  };
  std::unordered_map<uint32_t, Lengths> lengths_;
  std::vector<std::vector<bool>> ends_;  // [n][place]: whether the expression is in A(n)
  uint32_t period_{1};                   // the last period_ sets of ends_ repeat forever
};

}  // namespace nibble::grammar
