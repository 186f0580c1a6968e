// The tokens of a vocabulary: maps ids to bytes and bytes to ids. Two kinds share the ids: text tokens, which merging makes
// and find() looks up, and special tokens, whose bytes are a name and which no text becomes by merging.
//
// All bytes are in one string. Ids are found in a hash table with open addressing and linear probing, at most half full. A
// slot has 32 bits of the hash, so that bytes are hardly ever compared unless they are equal. It also has the place of the
// bytes, because to look it up in the id's entry would be one more cache miss (8 % of the time to encode English).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/token.h"

namespace nibble {

class Vocabulary {
 public:
  static constexpr TokenId kMaxId{(1 << 20) -
                                  1};  // five times gpt-oss's; bounds the memory that a broken file can claim

  explicit Vocabulary(size_t max_text_tokens);

  // Returns false if the id or a text token's bytes are already in use. The id must be 0 to kMaxId, bytes not empty.
  [[nodiscard]] bool add(TokenId id, std::string_view bytes);
  [[nodiscard]] bool add_special(TokenId id, std::string_view name);

  std::optional<TokenId> find(std::string_view bytes) const;  // text tokens only
  std::string_view bytes(TokenId id) const;                   // empty for an id that has no token
  bool is_special(TokenId id) const;
  int num_ids() const { return static_cast<int>(entries_.size()); }  // the highest id + 1

 private:
  struct Place {
    uint32_t begin{0}, num_bytes{0};
  };
  struct Entry {
    Place place;
    bool is_special{false};
  };
  struct Slot {
    uint32_t tag{0};
    TokenId id{-1};  // -1: free
    Place place;
  };

  bool take(TokenId id, std::string_view bytes, bool is_special);
  std::string_view at(Place place) const { return {bytes_.data() + place.begin, place.num_bytes}; }

  std::string bytes_;
  std::vector<Entry> entries_;  // by id
  std::vector<Slot> slots_;     // the size is a power of two
  size_t num_text_tokens_{0};
};

}  // namespace nibble
