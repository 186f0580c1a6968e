// The numbers of further characters after which a text can end. minLength and maxLength next to a pattern are
// counted with a number, not with states: a text may continue while its count and its pattern allow a common
// length. A(n), the set of expressions that can end after exactly n more characters, depends only on A(n -
// 1), so the sequence of sets becomes periodic.
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
  // `classes`: of the automaton that reads the text. InputError if the expression has too many derivatives.
  RemainingLengths(Expressions& expressions, const CharacterClasses& classes, Liveness& liveness,
                   Expression root);

  // Whether the expression, a derivative of the root, has a text of `min` to `max` characters.
  bool has_length(Expression expression, uint32_t min, uint32_t max) const;
  // The least n for which the expression has texts of every length from n on; kUnlimited: no such n.
  uint32_t ends_from(Expression expression) const;
  // ends_from() if the expression has no shorter texts, otherwise kUnlimited.
  uint32_t only_ends_from(Expression expression) const;

 private:
  struct Lengths {
    uint32_t place{0};             // index of the expression in each ends_[n]
    uint32_t from{kUnlimited};     // see ends_from()
    bool has_shorter_ones{false};  // texts of fewer characters than `from`
  };
  std::unordered_map<uint32_t, Lengths> lengths_;
  std::vector<std::vector<bool>> ends_;  // [n][place]: A(n), up to the end of the first period
  uint32_t period_{1};                   // the last period_ sets of ends_ repeat forever
};

}  // namespace nibble::grammar
