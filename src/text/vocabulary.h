// Maps ids to bytes and bytes to ids. Text tokens are the tokens that merging produces and that find() looks
// up. Special tokens (whose bytes are their names) and added tokens (texts that no merge produces) have ids
// too. The bytes of all tokens are in one string. A hash table with open addressing and linear probing, at
// most half full, maps bytes to ids. A slot has 32 bits of the hash, so that usually only equal bytes are
// compared. A slot also has the position of the bytes: reading it from the id's entry would cost another
// cache miss (8 % of the time to encode English).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokens/token.h"

namespace nibble {

class Vocabulary {
 public:
  // Five times the number of gpt-oss's ids. Limits the memory that a broken file can claim.
  static constexpr TokenId kMaxId{(1 << 20) - 1};

  explicit Vocabulary(size_t max_text_tokens);

  // The add functions return false if the id, or a text token's bytes, are taken. Ids are 0 to kMaxId, and
  // bytes must not be empty.
  [[nodiscard]] bool add(TokenId id, std::string_view bytes);
  [[nodiscard]] bool add_special(TokenId id, std::string_view name);
  [[nodiscard]] bool add_added(TokenId id, std::string_view text);

  std::optional<TokenId> find(std::string_view bytes) const;  // finds only text tokens
  std::string_view bytes(TokenId id) const;                   // empty for an id without a token
  bool is_special(TokenId id) const;
  bool is_added(TokenId id) const;
  int num_ids() const { return static_cast<int>(entries_.size()); }  // highest id, plus one

 private:
  struct ByteRange {
    uint32_t begin{0}, num_bytes{0};
  };
  enum class Kind : uint8_t { kText, kSpecial, kAdded };
  struct Entry {
    ByteRange range;
    Kind kind{Kind::kText};
  };
  struct Slot {
    uint32_t tag{0};
    TokenId id{-1};  // -1: the slot is free
    ByteRange range;
  };

  bool take(TokenId id, std::string_view bytes, Kind kind);
  bool is(TokenId id, Kind kind) const;
  std::string_view at(ByteRange range) const { return {bytes_.data() + range.begin, range.num_bytes}; }

  std::string bytes_;
  std::vector<Entry> entries_;  // indexed by id
  std::vector<Slot> slots_;     // hash table; its size is a power of two
  size_t num_text_tokens_{0};
};

}  // namespace nibble
