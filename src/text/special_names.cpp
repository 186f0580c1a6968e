#include "text/special_names.h"

#include <algorithm>

namespace nibble {

SpecialNames::SpecialNames(const Vocabulary& vocabulary, Of of) {
  for (TokenId id = 0; id < vocabulary.num_ids(); ++id) {
    if (!vocabulary.is_added(id) && !(of == Of::kBoth && vocabulary.is_special(id))) continue;
    names_.push_back({vocabulary.bytes(id), id});
    begins_name_[static_cast<uint8_t>(names_.back().text[0])] = true;
  }
  std::ranges::sort(names_, [](const Name& a, const Name& b) { return a.text < b.text; });
}

std::optional<SpecialNames::Found> SpecialNames::find(std::string_view text) const {
  for (size_t at = 0; at < text.size(); ++at) {
    if (!begins_name_[static_cast<uint8_t>(text[at])]) continue;
    if (const Name* name = longest_start_of(text.substr(at))) return Found{at, name->text.size(), name->id};
  }
  return std::nullopt;
}

// Returns the longest name with which `text` starts, or null. Narrows the range of names with the same first
// bytes, byte by byte: a name sorts before the longer names that start with it.
const SpecialNames::Name* SpecialNames::longest_start_of(std::string_view text) const {
  const Name* longest = nullptr;
  auto first = names_.begin(), last = names_.end();
  for (size_t i = 0; i < text.size() && first != last; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const auto byte_of = [i](const Name& name) { return static_cast<uint8_t>(name.text[i]); };
    first =
        std::lower_bound(first, last, byte, [&](const Name& name, uint8_t b) { return byte_of(name) < b; });
    last =
        std::upper_bound(first, last, byte, [&](uint8_t b, const Name& name) { return b < byte_of(name); });
    if (first != last && first->text.size() == i + 1) longest = &*first++;
  }
  return longest;
}

std::optional<TokenId> SpecialNames::id(std::string_view name) const {
  const Name* longest = longest_start_of(name);
  if (!longest || longest->text != name) return std::nullopt;
  return longest->id;
}

}  // namespace nibble
