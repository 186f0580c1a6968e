// Parts that backends with trees of drafts (DraftedTokens::parents) share: the cache slots that a row attends
// to, and the accepted drafts. Attention adds up a row's keys in the order of positions, grouped by page as
// if they were stored in that order. So a token gets the same bits in a tree, in a chain and alone.
#pragma once

#include <span>
#include <vector>

#include "model/batch.h"

namespace nibble {

// Position of a run's token, and the slots to which it attends.
struct PlaceInRun {
  int position{0};
  // Slots of the last path.size() positions, the token's own included, in order. Empty: the slot of every
  // position is the position.
  std::vector<int> path{};
};
std::vector<PlaceInRun> places_of(const Run& run);

// Returns the slot of `position` for a row at `last_position`. `position` may be later than `last_position`
// only if `path` is empty.
inline int slot_of(int position, int last_position, std::span<const int> path) {
  if (path.empty()) return position;
  const int place = position - (last_position + 1 - static_cast<int>(path.size()));
  return place < 0 ? position : path[static_cast<size_t>(place)];
}

// Returns the accepted path, as token indices of the run: the last known token, then the accepted drafts,
// each the parent of the next. `outputs`: tokens sampled in the run's output rows.
std::vector<int> right_path(const Run& run, std::span<const SampledToken> outputs);

// Returns StepResult::kept for the tokens that the batch's output rows sampled. Calls move(run, from, to) for
// each slot whose K and V must move, in an order in which no slot is overwritten before it is moved.
template <typename Move>
std::vector<std::vector<int>> keep_right_drafts(const Batch& batch, std::span<const SampledToken> outputs,
                                                const Move& move) {
  std::vector<std::vector<int>> kept;
  for (size_t n = 0; n < batch.runs.size(); ++n) {
    const Run& run = batch.runs[n];
    const auto chosen = outputs.first(run.outputs.size());
    outputs = outputs.subspan(run.outputs.size());
    if (run.drafted.parents.empty()) continue;
    const std::vector<int> path = right_path(run, chosen);
    kept.resize(batch.runs.size());
    kept[n].assign(path.begin() + 1, path.end());
    // Drafts move in ascending order. A draft never moves to a later slot, and later drafts are in later
    // slots. So no slot is overwritten before it is moved.
    for (size_t i = 1; i < path.size(); ++i)
      if (const int to = path[0] + static_cast<int>(i); path[i] != to)
        move(run, run.first_position + path[i], run.first_position + to);
  }
  return kept;
}

}  // namespace nibble
