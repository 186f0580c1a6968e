#include "backend/draft_tree.h"

#include <algorithm>

#include "core/check.h"

namespace nibble {

std::vector<PlaceInRun> places_of(const Run& run) {
  std::vector<PlaceInRun> places;
  for (size_t i = 0; i < run.tokens.size(); ++i) {
    const int parent = parent_of(run.parents, i), slot = run.first_position + static_cast<int>(i);
    NIBBLE_CHECK(parent < static_cast<int>(i) && (parent >= 0 || i == 0), "token {} behind token {}", i,
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
  std::vector<const SampledToken*> chosen(
      run.tokens.size());  // by token; null where none was chosen behind it
  for (size_t i = 0; i < run.outputs.size(); ++i)
    if (run.outputs[i].sample) chosen[static_cast<size_t>(run.outputs[i].token_index)] = &outputs[i];
  const size_t last_known = run.tokens.size() - static_cast<size_t>(run.num_drafted) - 1;
  std::vector<int> path{static_cast<int>(last_known)};
  for (size_t i = last_known + 1; i < run.tokens.size(); ++i) {
    if (parent_of(run.parents, i) != path.back()) continue;
    const SampledToken* choice = chosen[static_cast<size_t>(path.back())];
    // A draft needs no row before it where nothing else could follow.
    if (!choice || choice->token == run.tokens[i]) path.push_back(static_cast<int>(i));
  }
  return path;
}

}  // namespace nibble
