// With how many more characters a text that an automaton reads can end. A count of characters (minLength, maxLength) beside a pattern
// is kept as a number, not as states: a text may go on as long as some number of characters is both allowed by the count and a way to
// an end. These numbers are worked out for each expression at once: A(n), the expressions that can end with exactly n more
// characters, follows from A(n - 1) alone, so the sequence of these sets repeats from some place on.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "grammar/automata/automaton.h"

namespace nibble::grammar {

class RemainingLengths {
 public:
  // Throws InputError if the expression has too many derivatives to list.
  RemainingLengths(Automaton& automaton, Expressions& expressions, Expression root);

  // True if the expression, a derivative of the root's, has a text of at least `min` and at most `max` characters.
  bool has_length(Expression expression, uint32_t min, uint32_t max) const;
  // The least number from which on it has texts of every number of characters; kUnlimited: there is none.
  uint32_t ends_from(Expression expression) const;
  // The same where it has no shorter texts; kUnlimited elsewhere.
  uint32_t only_ends_from(Expression expression) const;

 private:
  struct Lengths {
    uint32_t place{0};             // of the expression
    uint32_t from{kUnlimited};     // ends_from
    bool has_shorter_ones{false};  // texts of fewer characters than `from`
  };
  std::unordered_map<uint32_t, Lengths> lengths_;
  std::vector<std::vector<bool>> ends_;  // [n][place]: A(n), until it repeats
  uint32_t period_{1};                   // the last so many sets are followed by themselves
};

}  // namespace nibble::grammar
