// Decides whether an expression matches any text. An automaton adds only states whose expressions do.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "grammar/automata/decoder.h"
#include "grammar/automata/expressions.h"

namespace nibble::grammar {

class Liveness {
 public:
  // The arguments must outlive this object. `classes` must separate all characters that the expressions
  // distinguish.
  Liveness(Expressions& expressions, const CharacterClasses& classes)
      : expressions_(expressions), classes_(classes) {}

  // Throws InputError if the search takes too long.
  bool is_live(Expression expression);

 private:
  std::optional<bool> shows_life(Expression expression);

  Expressions& expressions_;
  const CharacterClasses& classes_;
  std::unordered_map<uint32_t, bool> live_;  // results of is_live(), by expression
};

}  // namespace nibble::grammar
