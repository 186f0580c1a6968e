#include "grammar/automata/automaton.h"

#include <algorithm>
#include <queue>
#include <unordered_set>

#include "grammar/automata/remaining_lengths.h"

namespace nibble::grammar {
namespace {

// Maximum number of expressions that one search of is_live() visits; it then throws InputError.
constexpr size_t kMaxExploredForLife{20'000};

}  // namespace

// Rows of a JSON string: dead, before the opening quote, after the closing quote, then those between the
// quotes. Rows of other text: dead, then the start.
Automaton::Automaton(Expressions& expressions, Expression root, Encoding encoding,
                     std::shared_ptr<const Alphabet> alphabet, size_t& memory)
    : expressions_(expressions),
      root_(root),
      encoding_(encoding),
      alphabet_(std::move(alphabet)),
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

Automaton::~Automaton() = default;

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
  return std::any_of(classes.begin(), classes.end(), [&](uint32_t c) { return next_class(row, c) != kDead; });
}

// Returns whether the expression has a text; nullopt if only a search by is_live() can decide it.
std::optional<bool> Automaton::shows_life(Expression expression) {
  if (expression == Expression::kNothing) return false;
  if (!expressions_.may_be_empty(expression) || expressions_.accepts_empty(expression)) return true;
  const auto known = live_.find(static_cast<uint32_t>(expression));
  if (known != live_.end()) return known->second;
  if (expressions_.min_length(expression) > expressions_.max_length(expression)) return false;
  // An expression without a text of any length has none within a bound either: search the unbounded
  // expression, which has fewer derivatives, first.
  const Expression of_any_length = expressions_.of_any_length(expression);
  if (of_any_length == expression || is_live(of_any_length)) return std::nullopt;
  return live_[static_cast<uint32_t>(expression)] = false;
}

// Searches the derivatives for one that is known to have a text, in order of their minimum lengths. If the
// search fails, no visited expression has a text; if it succeeds, every expression on the path has one. Both
// results are kept in live_.
bool Automaton::is_live(Expression expression) {
  if (const std::optional<bool> known = shows_life(expression)) return *known;
  struct Visit {
    Expression expression;
    size_t from;
  };
  std::vector<Visit> visits{{expression, 0}};
  const auto is_later = [&](size_t a, size_t b) {
    const auto length_of = [&](size_t visit) { return expressions_.min_length(visits[visit].expression); };
    return std::pair{length_of(a), b} > std::pair{length_of(b), a};
  };
  std::priority_queue<size_t, std::vector<size_t>, decltype(is_later)> open(is_later);
  open.push(0);
  std::unordered_set<uint32_t> seen{static_cast<uint32_t>(expression)};
  while (!open.empty()) {
    const size_t at = open.top();
    open.pop();
    for (uint32_t c = 0; c < alphabet_->classes.size(); ++c) {
      expressions_.fuel().spend();
      const Expression next =
          expressions_.derivative(visits[at].expression, alphabet_->classes.representative(c));
      if (!seen.insert(static_cast<uint32_t>(next)).second) continue;
      const std::optional<bool> known = shows_life(next);
      if (known == true) {
        for (size_t on_path = at; on_path != 0; on_path = visits[on_path].from)
          live_[static_cast<uint32_t>(visits[on_path].expression)] = true;
        return live_[static_cast<uint32_t>(expression)] = true;
      }
      if (known == false) continue;
      if (visits.size() == kMaxExploredForLife)
        throw InputError(
            "the constraints on one string are too complex together; use fewer of them, or smaller counts");
      visits.push_back({next, at});
      open.push(visits.size() - 1);
    }
  }
  for (const Visit& visit : visits) live_[static_cast<uint32_t>(visit.expression)] = false;
  return false;
}

const RemainingLengths& Automaton::lengths() {
  if (!lengths_) {
    lengths_ = std::make_unique<RemainingLengths>(*this, expressions_, root_);
    for (Row& row : rows_) row.ends_from = lengths_->only_ends_from(row.expression);
  }
  return *lengths_;
}

bool Automaton::can_end(uint32_t state, uint32_t min, uint32_t max) {
  const Row& row = rows_[row_of(state)];
  return row.ends_from != kUnlimited ? max >= row.ends_from : lengths().has_length(row.expression, min, max);
}

}  // namespace nibble::grammar
