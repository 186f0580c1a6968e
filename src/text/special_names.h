// Finds the first name of a special or added token in a text. If several names begin there, the longest wins.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "core/tokens/token.h"
#include "text/vocabulary.h"

namespace nibble {

class SpecialNames {
 public:
  enum class Of { kBoth, kAddedTokens };
  // Keeps views of the vocabulary's bytes: the vocabulary must outlive this object.
  explicit SpecialNames(const Vocabulary& vocabulary, Of of = Of::kBoth);

  struct Found {
    size_t begin, num_bytes;
    TokenId id;
  };
  std::optional<Found> find(std::string_view text) const;
  std::optional<TokenId> id(std::string_view name) const;
  bool is_empty() const { return names_.empty(); }

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
