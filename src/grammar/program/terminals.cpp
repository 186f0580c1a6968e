#include <algorithm>

#include "grammar/automata/remaining_lengths.h"
#include "grammar/program/builder.h"

namespace nibble::grammar {

uint32_t GrammarBuilder::place_of_automaton(Expression expression, Encoding encoding) {
  const auto [known, is_new] =
      automata_.emplace(std::pair{expression, encoding}, to_index(grammar_->automata.size()));
  if (!is_new) return known->second;
  const std::vector<CodePoints> sets = expressions().sets_of(expression);
  std::vector<std::pair<char32_t, char32_t>> key{{static_cast<char32_t>(encoding), 0}};
  for (const CodePoints& set : sets) {
    for (const CodePointRange& range : set.ranges()) key.emplace_back(range.first, range.last);
    key.emplace_back(1, 0);  // an empty range marks the end of a set
  }
  // Fuel per range of an alphabet and per place of its decoder, in proportion to the time that one takes.
  constexpr uint64_t kFuelOfRange{5}, kFuelOfPlace{20};
  expressions().fuel().spend(key.size());
  auto& alphabet = alphabets_[key];
  if (!alphabet) {
    expressions().fuel().spend(kFuelOfRange * key.size());
    alphabet = std::make_shared<const Alphabet>(sets, encoding);
    expressions().fuel().spend(kFuelOfPlace * alphabet->decoder.num_places());
    grammar_->automata_bytes += alphabet->decoder.bytes();
    if (grammar_->automata_bytes > kMaxStateBytes)
      throw InputError("the grammar uses too many different character sets; use fewer");
  }
  grammar_->automata.emplace_back(expressions(), expression, encoding, alphabet, grammar_->automata_bytes);
  return known->second;
}

Automaton& GrammarBuilder::automaton_of(Expression expression, Encoding encoding) {
  return grammar_->automata[place_of_automaton(expression, encoding)];
}

// Returns the index of the expression's terminal, made on first use; kUnlimited if the expression has no text
// whose length is allowed.
uint32_t GrammarBuilder::terminal_of(Expression expression, Encoding encoding, Counts counts) {
  if (counts.min > counts.max) return kUnlimited;
  Terminal terminal{.kind = Terminal::Kind::kAutomaton, .index = place_of_automaton(expression, encoding)};
  Automaton& automaton = grammar_->automata[terminal.index];
  if (automaton.is_empty()) return kUnlimited;
  if (expressions().min_length(expression) < counts.min ||
      expressions().max_length(expression) > counts.max) {
    terminal.is_counted = true;
    terminal.min = counts.min;
    terminal.max = counts.max;
    terminal.has_pattern = expression != Expression::kAnything;
    if (terminal.has_pattern && !automaton.lengths().has_length(expression, counts.min, counts.max))
      return kUnlimited;
  }
  const auto known = std::ranges::find_if(grammar_->terminals, [&](const Terminal& other) {
    return other.kind == terminal.kind && other.index == terminal.index &&
           other.is_counted == terminal.is_counted && other.min == terminal.min && other.max == terminal.max;
  });
  if (known != grammar_->terminals.end())
    return to_index(static_cast<size_t>(known - grammar_->terminals.begin()));
  grammar_->terminals.push_back(terminal);
  return to_index(grammar_->terminals.size() - 1);
}

}  // namespace nibble::grammar
