// Finds the names of special tokens in a text: the leftmost, and of several that begin there the longest.
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
  // Looks into the vocabulary's bytes, which must live as long.
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

  std::vector<Name> names_;  // sorted by text: as good as a trie, for the few there are
  std::array<bool, 256> begins_name_{};
};

}  // namespace nibble
