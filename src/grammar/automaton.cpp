#include "grammar/automaton.h"

#include <algorithm>

namespace nibble::grammar {
namespace {

constexpr size_t kMaxExploredForLife{20'000};  // expressions that are looked through for one that accepts

}  // namespace

Automaton::Automaton(Expressions& expressions, Expression root, Encoding encoding,
                     std::shared_ptr<const Alphabet> alphabet, size_t& memory)
    : expressions_(expressions),
      root_(root),
      encoding_(encoding),
      alphabet_(std::move(alphabet)),
      memory_(memory),
      num_groups_(alphabet_->decoder.num_byte_groups()),
      groups_(alphabet_->decoder.byte_groups().data()) {
  add_state({Expression::kNothing, 0, false, false, true});
  if (encoding_ == Encoding::kUtf8) {
    if (is_live(root)) add(root, 0);
  } else {
    add_state({root, 0, false, false, false});  // in front of the opening quote
  }
  if (states_.size() == 1) add_state({Expression::kNothing, 0, false, false, true});
}

uint32_t Automaton::add_state(State state) {
  const size_t bytes = num_groups_ * sizeof(uint32_t) + sizeof(State) + 64;
  if (memory_ + bytes > kMaxStateBytes)
    throw InputError(
        "the grammar's automata need more than {} MiB; make its repetitions or alternatives fewer",
        kMaxStateBytes >> 20);
  memory_ += bytes;
  states_.push_back(state);
  transitions_.resize(transitions_.size() + num_groups_, kUnknown);
  return to_index(states_.size() - 1);
}

uint32_t Automaton::add(Expression expression, uint32_t place) {
  const uint64_t key = uint64_t{static_cast<uint32_t>(expression)} << 32 | place;
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  const bool accepts = encoding_ == Encoding::kUtf8 && place == 0 && expressions_.accepts_empty(expression);
  const uint32_t id =
      add_state({expression, place, place == 0, accepts, accepts && expression == Expression::kEmptyText});
  known_.emplace(key, id);
  return id;
}

uint32_t Automaton::make_transition(uint32_t state, uint8_t byte) {
  expressions_.fuel().spend(2);
  const uint32_t found = target(state, byte);
  transitions_[state * num_groups_ + groups_[byte]] = found;
  return found;
}

uint32_t Automaton::target(uint32_t state, uint8_t byte) {
  if (state == kDead || (closed_ != 0 && state == closed_)) return kDead;
  const State from = states_[state];
  if (state == kStart && encoding_ != Encoding::kUtf8)
    return byte == '"' && is_live(from.expression) ? add(from.expression, 0) : kDead;
  const Decoder::Step step = alphabet_->decoder.step(from.place, byte);
  switch (step.kind()) {
    case Decoder::Kind::kIllegal:
      return kDead;
    case Decoder::Kind::kQuote:
      if (!expressions_.accepts_empty(from.expression)) return kDead;
      if (closed_ == 0) closed_ = add_state({Expression::kEmptyText, 0, false, true, true});
      return closed_;
    case Decoder::Kind::kCharacter: {
      const Expression rest =
          expressions_.derivative(from.expression, alphabet_->classes.representative(step.target()));
      return is_live(rest) ? add(rest, 0) : kDead;
    }
    case Decoder::Kind::kPlace:
      for (const uint32_t character_class : alphabet_->decoder.classes_at(step.target()))
        if (is_live(
                expressions_.derivative(from.expression, alphabet_->classes.representative(character_class))))
          return add(from.expression, step.target());
      return kDead;
  }
  return kDead;
}

// A search for an expression that accepts. Everything that was looked through in vain is dead; what lies on the way to a find lives.
bool Automaton::is_live(Expression expression) {
  if (expression == Expression::kNothing) return false;
  if (!expressions_.may_be_empty(expression) || expressions_.accepts_empty(expression)) return true;
  if (const auto known = live_.find(static_cast<uint32_t>(expression)); known != live_.end())
    return known->second;
  struct Visit {
    Expression expression;
    size_t from;
  };
  std::vector<Visit> visits{{expression, 0}};
  std::unordered_map<uint32_t, bool> seen{{static_cast<uint32_t>(expression), true}};
  for (size_t at = 0; at < visits.size(); ++at) {
    for (uint32_t c = 0; c < alphabet_->classes.size(); ++c) {
      const Expression next =
          expressions_.derivative(visits[at].expression, alphabet_->classes.representative(c));
      if (next == Expression::kNothing || !seen.emplace(static_cast<uint32_t>(next), true).second) continue;
      const auto known = live_.find(static_cast<uint32_t>(next));
      if (known != live_.end() && !known->second) continue;
      if (known != live_.end() || !expressions_.may_be_empty(next) || expressions_.accepts_empty(next)) {
        for (size_t on_way = at;; on_way = visits[on_way].from) {
          live_[static_cast<uint32_t>(visits[on_way].expression)] = true;
          if (on_way == 0) return true;
        }
      }
      if (visits.size() == kMaxExploredForLife)
        throw InputError(
            "the constraints on a text together are too complex; make them fewer or their counts smaller");
      visits.push_back({next, at});
    }
  }
  for (const Visit& visit : visits) live_[static_cast<uint32_t>(visit.expression)] = false;
  return false;
}

}  // namespace nibble::grammar
