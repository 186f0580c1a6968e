// Finds out whether an expression has any text. An automaton makes only states from which a text can still be
// completed, so it checks every derivative.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "grammar/automata/decoder.h"
#include "grammar/automata/expressions.h"

namespace nibble::grammar {

class Liveness {
 public:
  // Both must outlive this object. The classes must separate the characters that the expressions distinguish.
  Liveness(Expressions& expressions, const CharacterClasses& classes)
      : expressions_(expressions), classes_(classes) {}

  // Returns true if the expression has any text. Throws InputError if that takes too long to find out.
  bool is_live(Expression expression);

 private:
  std::optional<bool> shows_life(Expression expression);

  Expressions& expressions_;
  const CharacterClasses& classes_;
  std::unordered_map<uint32_t, bool> live_;  // results of is_live(), by expression
};

}  // namespace nibble::grammar
