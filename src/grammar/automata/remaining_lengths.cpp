#include "grammar/automata/remaining_lengths.h"

#include <algorithm>
#include <map>

#include "core/errors/error.h"

namespace nibble::grammar {
namespace {

constexpr size_t kMaxDerivatives{2'000};
constexpr size_t kMaxSets{5'000};
constexpr size_t kMaxSteps{3'000'000};  // visited edges; this many take a few milliseconds

}  // namespace

RemainingLengths::RemainingLengths(Expressions& expressions, const CharacterClasses& classes,
                                   Liveness& liveness, Expression root) {
  const auto refuse = [] {
    throw InputError(
        "a pattern is too complex to combine with a length limit; shorten its repetitions, or leave out the "
        "limit");
  };
  std::vector<Expression> found{root};
  lengths_[static_cast<uint32_t>(root)] = {};
  std::vector<std::vector<uint32_t>> next;
  size_t num_edges = 0;
  for (size_t at = 0; at < found.size(); ++at) {
    std::vector<uint32_t> targets;
    for (uint32_t c = 0; c < classes.size(); ++c) {
      const Expression derivative = expressions.derivative(found[at], classes.representative(c));
      if (!liveness.is_live(derivative)) continue;
      const auto [known, is_new] =
          lengths_.emplace(static_cast<uint32_t>(derivative), Lengths{to_index(found.size())});
      if (is_new) {
        if (found.size() == kMaxDerivatives) refuse();
        found.push_back(derivative);
      }
      targets.push_back(known->second.place);
    }
    std::ranges::sort(targets);
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    num_edges += targets.size() + 1;
    next.push_back(std::move(targets));
  }

  std::vector<bool> set(found.size());
  for (size_t place = 0; place < found.size(); ++place) set[place] = expressions.accepts_empty(found[place]);
  std::map<std::vector<bool>, uint32_t> known;
  for (size_t num_steps = 0;; num_steps += num_edges) {
    const auto [first, is_new] = known.emplace(set, to_index(ends_.size()));
    if (!is_new) {
      period_ = to_index(ends_.size()) - first->second;
      break;
    }
    if (ends_.size() == kMaxSets || num_steps > kMaxSteps) refuse();
    ends_.push_back(set);
    std::vector<bool> before(found.size());
    for (size_t place = 0; place < found.size(); ++place)
      before[place] = std::ranges::any_of(next[place], [&](uint32_t to) { return set[to]; });
    set = std::move(before);
  }

  for (auto& [expression, lengths] : lengths_) {
    const auto ends = [&, place = lengths.place](size_t n) { return ends_[n][place]; };
    size_t from = ends_.size();
    while (from > 0 && ends(from - 1)) --from;
    for (size_t n = 0; n < from; ++n) lengths.has_shorter_ones = lengths.has_shorter_ones || ends(n);
    // An expression with texts of every length in a whole period also has texts of every greater length.
    if (ends_.size() - from >= period_) lengths.from = to_index(from);
  }
}

uint32_t RemainingLengths::ends_from(Expression expression) const {
  const auto known = lengths_.find(static_cast<uint32_t>(expression));
  return known == lengths_.end() ? kUnlimited : known->second.from;
}

uint32_t RemainingLengths::only_ends_from(Expression expression) const {
  const auto known = lengths_.find(static_cast<uint32_t>(expression));
  return known == lengths_.end() || known->second.has_shorter_ones ? kUnlimited : known->second.from;
}

bool RemainingLengths::has_length(Expression expression, uint32_t min, uint32_t max) const {
  const auto known = lengths_.find(static_cast<uint32_t>(expression));
  if (known == lengths_.end() || min > max) return false;
  const auto [place, from, has_shorter_ones] = known->second;
  if (from != kUnlimited && (max >= from || !has_shorter_ones)) return max >= from;
  const auto num_sets = static_cast<uint32_t>(ends_.size()), tail = num_sets - period_;
  for (uint32_t n = min, num_looked_at = 0; n <= max && num_looked_at < num_sets + period_;
       ++n, ++num_looked_at) {
    const uint32_t set = n < num_sets ? n : tail + (n - tail) % period_;
    if (ends_[set][place]) return true;
    if (n == kUnlimited) return false;
  }
  return false;
}

}  // namespace nibble::grammar
