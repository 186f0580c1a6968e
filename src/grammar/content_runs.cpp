// Which texts of content may follow a state: content.h.
#include <algorithm>

#include "grammar/automaton.h"

namespace nibble::grammar {
namespace {

constexpr size_t kMaxExpressionsInRun{600};  // beyond these a run is said to be as long as it was seen to be

}  // namespace

const ContentRuns& Automaton::content_runs(uint32_t state) {
  const auto [known, is_new] = content_runs_.try_emplace(state);
  ContentRuns& runs = known->second;
  const State from = states_[state];
  if (!is_new || !from.is_between) return runs;
  if (expressions_.continues_any(from.expression)) {
    runs.num_characters.fill(kMaxContentCharacters);
    if (from.expression == Expression::kAnything) runs.may_end = (1u << kNumContentSlices) - 1;
    return runs;
  }
  memory_ += sizeof(ContentRuns);
  // Where all kinds may follow, so may some of them. Where the whole may end is asked of JSON strings only.
  const size_t all = kNumContentSlices - 1;
  find_run(from.expression, all, runs);
  if (runs.num_characters[all] == kMaxContentCharacters &&
      (encoding_ == Encoding::kUtf8 || (runs.may_end >> all & 1))) {
    runs.num_characters.fill(kMaxContentCharacters);
    if (runs.may_end) runs.may_end = (1u << kNumContentSlices) - 1;
    return runs;
  }
  for (size_t slice = 0; slice < all; ++slice) find_run(from.expression, slice, runs);
  return runs;
}

// Level by level: the expressions behind all texts of one more character.
void Automaton::find_run(Expression start, size_t slice, ContentRuns& runs) {
  std::vector<Expression> level{start}, seen{start};
  bool may_end = true;
  for (uint32_t num_characters = 0;; ++num_characters) {
    std::vector<Expression> next;
    bool has_dead = false, has_live = false, has_new = false;
    for (const Expression expression : level)
      for (uint32_t c = 0; c < alphabet_->classes.size(); ++c) {
        if ((alphabet_->classes.content(c) & kContentSlices[slice]) == 0) continue;
        const Expression derivative =
            expressions_.derivative(expression, alphabet_->classes.representative(c));
        if (!is_live(derivative)) {
          has_dead = true;
          continue;
        }
        has_live = true;
        if (has_dead) break;
        if (std::find(next.begin(), next.end(), derivative) != next.end()) continue;
        next.push_back(derivative);
        may_end = may_end && expressions_.accepts_empty(derivative);
        if (std::find(seen.begin(), seen.end(), derivative) == seen.end()) {
          has_new = true;
          seen.push_back(derivative);
        }
      }
    if (has_dead || seen.size() > kMaxExpressionsInRun) {
      runs.num_characters[slice] = static_cast<uint8_t>(num_characters);
      if (has_dead && !has_live) runs.ends_there |= 1u << slice;
      return;
    }
    if (!has_new || num_characters + 1 == kMaxContentCharacters) {
      runs.num_characters[slice] = kMaxContentCharacters;
      if (may_end) runs.may_end |= 1u << slice;
      return;
    }
    level = std::move(next);
  }
}

}  // namespace nibble::grammar
