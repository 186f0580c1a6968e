// Backends that take trees of drafts (Run::parents) share these: they find where in the cache a row sees the positions before it, and
// which drafts are right.
//
// A row adds up the keys that it sees in the order of their positions, cut into the same pages as if they lay there. So a token gets the
// same bits in a tree, in a chain and alone.
#pragma once

#include <span>
#include <vector>

#include "model/batch.h"

namespace nibble {

// Where a token of a run stands.
struct PlaceInRun {
  int position{0};
  // The slots of the last positions up to its own, in order; empty where every position is its own slot, as it is in a chain.
  std::vector<int> path{};
};
std::vector<PlaceInRun> places_of(const Run& run);

// The slot of `position`, as a row at `last_position` with this path sees it. Without a path it may lie behind the row.
inline int slot_of(int position, int last_position, std::span<const int> path) {
  if (path.empty()) return position;
  const int place = position - (last_position + 1 - static_cast<int>(path.size()));
  return place < 0 ? position : path[static_cast<size_t>(place)];
}

// The last token of the run that is known, and the drafts behind it that are right: indices of tokens, each behind the one before it.
// `outputs`: what the run's output rows chose.
std::vector<int> right_path(const Run& run, std::span<const SampledToken> outputs);

// StepResult::kept, from what the output rows of the batch chose. Calls move(run, from, to) for each slot whose keys and values are to be
// those of another, in an order in which nothing is lost.
template <typename Move>
std::vector<std::vector<int>> keep_right_drafts(const Batch& batch, std::span<const SampledToken> outputs,
                                                const Move& move) {
  std::vector<std::vector<int>> kept;
  for (size_t n = 0; n < batch.runs.size(); ++n) {
    const Run& run = batch.runs[n];
    const auto chosen = outputs.first(run.outputs.size());
    outputs = outputs.subspan(run.outputs.size());
    if (run.parents.empty()) continue;
    const std::vector<int> path = right_path(run, chosen);
    kept.resize(batch.runs.size());
    kept[n].assign(path.begin() + 1, path.end());
    // A draft never stands before the place that it moves to, and later ones stand behind it.
    for (size_t i = 1; i < path.size(); ++i)
      if (const int to = path[0] + static_cast<int>(i); path[i] != to)
        move(run, run.first_position + path[i], run.first_position + to);
  }
  return kept;
}

}  // namespace nibble
