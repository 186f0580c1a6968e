#include "backend/draft_tree.h"

#include "backend/right_drafts.h"
#include "core/errors/check.h"

namespace nibble {

std::vector<PlaceInRun> places_of(const Run& run) {
  std::vector<PlaceInRun> places;
  for (size_t i = 0; i < run.tokens.size(); ++i) {
    const int parent = parent_of(run.drafted.parents, i), slot = run.first_position + static_cast<int>(i);
    NIBBLE_CHECK(parent < static_cast<int>(i) && (parent >= 0 || i == 0), "token {} after token {}", i,
                 parent);
    PlaceInRun& place = places.emplace_back(PlaceInRun{.position = run.first_position});
    if (parent < 0) continue;
    const PlaceInRun& before = places[static_cast<size_t>(parent)];
    place.position = before.position + 1;
    if (before.path.empty() && slot == place.position) continue;
    place.path = before.path;
    place.path.push_back(slot);
  }
  return places;
}

std::vector<int> right_path(const Run& run, std::span<const SampledToken> outputs) {
  // For each token of the run: the token that was sampled after it, or null.
  std::vector<const SampledToken*> chosen(run.tokens.size());
  for (size_t i = 0; i < run.outputs.size(); ++i)
    if (run.outputs[i].sample) chosen[static_cast<size_t>(run.outputs[i].token_index)] = &outputs[i];
  const int last_known = static_cast<int>(run.tokens.size()) - run.drafted.count - 1;
  std::vector<int> path{last_known};
  for_right_drafts(
      {last_known, last_known + 1, static_cast<int>(run.tokens.size())},
      [&](int i) { return parent_of(run.drafted.parents, static_cast<size_t>(i)); },
      [&](int i) {
        const int parent = parent_of(run.drafted.parents, static_cast<size_t>(i));
        const SampledToken* choice = chosen[static_cast<size_t>(parent)];
        return !choice || choice->token == run.tokens[static_cast<size_t>(i)];
      },
      [&](int i) { path.push_back(i); });
  return path;
}

}  // namespace nibble
