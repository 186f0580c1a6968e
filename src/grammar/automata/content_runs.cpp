#include <algorithm>

#include "grammar/automata/automaton.h"
#include "grammar/automata/remaining_lengths.h"

namespace nibble::grammar {
namespace {

// Limit on the number of expressions that find_run() visits. At the limit, find_run() returns the length that
// it has checked so far.
constexpr size_t kMaxExpressionsInRun{600};

}  // namespace

const ContentRuns& Automaton::content_runs(uint32_t state) {
  static const ContentRuns kNone{};
  if (!is_between_characters(state)) return kNone;
  const auto [known, is_new] = content_runs_.try_emplace(state);
  ContentRuns& runs = known->second;
  if (!is_new) return runs;
  memory_ += sizeof(ContentRuns) + 32;
  const Expression from = rows_[state].expression;
  if (from == Expression::kAnything || (!lengths_ && expressions_.continues_any(from))) {
    runs.num_characters.fill(kMaxContentCharacters);
    return runs;
  }
  // Search first for the set with all kinds of characters: its result often holds for every other set.
  const size_t all = kNumContentSets - 1;
  find_run(from, all, runs);
  const bool ends_there = (runs.ends_there >> all & 1) != 0;
  if (ends_there || (runs.num_characters[all] == kMaxContentCharacters && runs.num_missing[all] == 0)) {
    runs.num_characters.fill(runs.num_characters[all]);
    runs.num_missing.fill(runs.num_missing[all]);
    if (ends_there) runs.ends_there = kAllContentSets;
    return runs;
  }
  for (size_t set = 0; set < all; ++set) find_run(from, set, runs);
  return runs;
}

// Finds, by breadth-first search, the length up to which `start` allows every text of this content set
// (content.h). `level` has the derivatives of `start` by all such texts of num_characters characters.
void Automaton::find_run(Expression start, size_t set, ContentRuns& runs) {
  std::vector<Expression> level{start}, seen{start};
  uint32_t num_missing = 0;
  for (uint32_t num_characters = 0;; ++num_characters) {
    std::vector<Expression> next;
    bool has_dead = false, has_live = false, has_new = false;
    for (const Expression expression : level)
      for (uint32_t c = 0; c < alphabet_->classes.size(); ++c) {
        if ((alphabet_->classes.content(c) & kContentSets[set]) == 0) continue;
        const Expression derivative =
            expressions_.derivative(expression, alphabet_->classes.representative(c));
        if (!is_live(derivative)) {
          has_dead = true;
          continue;
        }
        has_live = true;
        if (has_dead) break;
        if (std::ranges::find(next, derivative) != next.end()) continue;
        next.push_back(derivative);
        if (lengths_) num_missing = std::max(num_missing, lengths_->ends_from(derivative));
        if (std::ranges::find(seen, derivative) == seen.end()) {
          has_new = true;
          seen.push_back(derivative);
        }
      }
    if (has_dead || seen.size() > kMaxExpressionsInRun) {
      runs.num_characters[set] = static_cast<uint8_t>(num_characters);
      if (has_dead && !has_live) runs.ends_there |= 1u << set;
      runs.num_missing[set] = ContentRuns::kNever;
      return;
    }
    if (!has_new || num_characters + 1 == kMaxContentCharacters) {
      runs.num_characters[set] = kMaxContentCharacters;
      runs.num_missing[set] = static_cast<uint16_t>(std::min<uint32_t>(num_missing, ContentRuns::kNever));
      return;
    }
    level = std::move(next);
  }
}

}  // namespace nibble::grammar
