#include "grammar/automata/automaton.h"

#include <algorithm>
#include <utility>

#include "core/errors/error.h"

namespace nibble::grammar {
// Reserves row kDead; for a quoted string also kStart (before the opening quote) and kClosed (after the end).
Automaton::Automaton(Expressions& expressions, Expression root, Encoding encoding,
                     std::shared_ptr<const Alphabet> alphabet, size_t& memory)
    : expressions_(expressions),
      root_(root),
      encoding_(encoding),
      alphabet_(std::move(alphabet)),
      liveness_(expressions, alphabet_->classes),
      memory_(memory),
      num_classes_(alphabet_->classes.size()),
      single_bytes_(alphabet_->decoder.single_bytes().data()),
      first_text_state_(has_quotes(encoding) ? kClosed + 1 : kStart) {
  if (alphabet_->decoder.num_places() >= 1u << (32 - kRowBits))
    throw InputError("the character sets are too complex; simplify them");
  rows_.assign(first_text_state_, {Expression::kNothing, false});
  transitions_.resize(rows_.size() * num_classes_, kDead);
  add(root);
}

uint32_t Automaton::add(Expression expression) {
  const auto [known, is_new] = known_.emplace(static_cast<uint32_t>(expression), to_index(rows_.size()));
  if (!is_new) return known->second;
  const size_t bytes = num_classes_ * sizeof(uint32_t) + sizeof(Row) + 48;
  if (memory_ + bytes > kMaxStateBytes)
    throw InputError("the grammar's automata need more than {} MiB; use fewer repetitions or alternatives",
                     kMaxStateBytes >> 20);
  memory_ += bytes;
  rows_.push_back({expression, expressions_.accepts_empty(expression)});
  if (lengths_) rows_.back().ends_from = lengths_->only_ends_from(expression);
  transitions_.resize(transitions_.size() + num_classes_, kUnknown);
  return known->second;
}

uint32_t Automaton::next_of_special(uint32_t state, uint8_t byte) {
  return state == kStart && byte == '"' && is_live(root_) ? known_.at(static_cast<uint32_t>(root_)) : kDead;
}

uint32_t Automaton::make_transition(uint32_t row, uint32_t character_class) {
  expressions_.fuel().spend(2);
  const Expression rest =
      expressions_.derivative(rows_[row].expression, alphabet_->classes.representative(character_class));
  const uint32_t found = is_live(rest) ? add(rest) : kDead;
  transitions_[row * num_classes_ + character_class] = found;
  return found;
}

bool Automaton::can_complete(uint32_t row, uint32_t place) {
  const std::vector<uint32_t>& classes = alphabet_->decoder.classes_at(place);
  return std::ranges::any_of(classes, [&](uint32_t c) { return next_class(row, c) != kDead; });
}

const RemainingLengths& Automaton::lengths() {
  if (!lengths_) {
    lengths_ = std::make_unique<RemainingLengths>(expressions_, alphabet_->classes, liveness_, root_);
    for (Row& row : rows_) row.ends_from = lengths_->only_ends_from(row.expression);
  }
  return *lengths_;
}

bool Automaton::can_end(uint32_t state, uint32_t min, uint32_t max) {
  const Row& row = rows_[row_of(state)];
  return row.ends_from != kUnlimited ? max >= row.ends_from : lengths().has_length(row.expression, min, max);
}

}  // namespace nibble::grammar
