#include "grammar/automata/liveness.h"

#include <queue>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/errors/error.h"

namespace nibble::grammar {
namespace {

// Limit on the expressions that one search may visit; above it is_live() throws InputError.
constexpr size_t kMaxExploredForLife{20'000};

}  // namespace

// Whether the expression matches any text; nullopt if only the search in is_live() can answer.
std::optional<bool> Liveness::shows_life(Expression expression) {
  if (expression == Expression::kNothing) return false;
  if (!expressions_.may_be_empty(expression) || expressions_.accepts_empty(expression)) return true;
  const auto known = live_.find(static_cast<uint32_t>(expression));
  if (known != live_.end()) return known->second;
  if (expressions_.min_length(expression) > expressions_.max_length(expression)) return false;
  // Without length bounds, an expression has fewer derivatives and matches at least the same texts. If the
  // expression without bounds matches no text, the expression with bounds matches none.
  const Expression of_any_length = expressions_.of_any_length(expression);
  if (of_any_length == expression || is_live(of_any_length)) return std::nullopt;
  return live_[static_cast<uint32_t>(expression)] = false;
}

// Searches the derivatives, shortest texts first, for one that is known to match a text. If there is one, all
// derivatives on the path to it match a text; otherwise no visited derivative does. live_ keeps the results.
bool Liveness::is_live(Expression expression) {
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
    for (uint32_t c = 0; c < classes_.size(); ++c) {
      expressions_.fuel().spend();
      const Expression next = expressions_.derivative(visits[at].expression, classes_.representative(c));
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

}  // namespace nibble::grammar
