#include <algorithm>
#include <map>

#include "grammar/automata/decoder.h"

namespace nibble::grammar {

// Visits the edges of all ranges (first character, character after the last) in order: between two adjacent
// edges, all characters have the same class.
CharacterClasses::CharacterClasses(const std::vector<CodePoints>& sets) {
  struct Edge {
    char32_t at;
    uint32_t set;
  };
  std::vector<Edge> edges;
  for (uint32_t set = 0; set < sets.size(); ++set)
    for (const CodePointRange& range : sets[set].ranges()) {
      edges.push_back({range.first, set});
      edges.push_back({range.last + 1, set});
    }
  std::ranges::sort(edges, [](const Edge& a, const Edge& b) { return a.at < b.at; });

  std::map<std::vector<uint32_t>, uint32_t> known;
  std::vector<uint32_t> active;  // the sets that contain `first`, sorted
  size_t edge = 0;
  for (char32_t first = 0; first <= kLastCodePoint;) {
    for (; edge < edges.size() && edges[edge].at == first; ++edge) {
      const auto place = std::lower_bound(active.begin(), active.end(), edges[edge].set);
      if (place != active.end() && *place == edges[edge].set) {
        active.erase(place);
      } else {
        active.insert(place, edges[edge].set);
      }
    }
    const char32_t next = edge < edges.size() ? edges[edge].at : kLastCodePoint + 1;
    // Texts contain no surrogates, so their range is merged into the interval before it.
    if (first >= 0xD800 && next <= 0xE000) {
      intervals_.back().last = next - 1;
      first = next;
      continue;
    }
    const auto [entry, is_new] = known.emplace(active, static_cast<uint32_t>(representatives_.size()));
    if (is_new) {
      representatives_.push_back(first);
      content_.push_back(0);
    }
    content_[entry->second] |= content_kinds(first, next - 1);
    intervals_.push_back({next - 1, entry->second});
    first = next;
  }
}

uint32_t CharacterClasses::class_of(char32_t first, char32_t last) const {
  auto interval = std::lower_bound(intervals_.begin(), intervals_.end(), first,
                                   [](const Interval& a, char32_t c) { return a.last < c; });
  const uint32_t found = interval->character_class;
  for (; interval->last < last; ++interval)
    if (std::next(interval)->character_class != found) return kMixed;
  return found;
}

}  // namespace nibble::grammar
