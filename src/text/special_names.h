// Finds the first name of a special token in a text. If several begin there, finds the longest.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "core/token.h"
#include "text/vocabulary.h"

namespace nibble {

class SpecialNames {
 public:
  // Keeps views of the names, which are in `vocabulary`: it must outlive this object.
  explicit SpecialNames(const Vocabulary& vocabulary);

  struct Found {
    size_t begin, num_bytes;
    TokenId id;
  };
  std::optional<Found> find(std::string_view text) const;
  std::optional<TokenId> id(std::string_view name) const;

 private:
  struct Name {
    std::string_view text;
    TokenId id;
  };

  const Name* longest_start_of(std::string_view text) const;

  std::vector<Name> names_;  // sorted by text; as fast as a trie for few names
  std::array<bool, 256> begins_name_{};
};

}  // namespace nibble
