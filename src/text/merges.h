// The merge rules of byte-level BPE. Encoding starts from single bytes, and repeatedly merges the adjacent
// pair with the lowest priority number; of equal ones, the leftmost. In a tokenizer.json, the priority is the
// merge's index. In a rank file, two tokens may merge if their joined bytes are a token, whose rank is the
// priority.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/tokens/token.h"

namespace nibble {

struct Merge {
  static constexpr uint32_t kNever{UINT32_MAX};
  uint32_t priority{kNever};
  TokenId result{0};
};

class Merges {
 public:
  // `byte_tokens`: the token of each single byte.
  Merges(size_t max_merges, const std::array<TokenId, 256>& byte_tokens);

  // Returns false if the pair already has a merge.
  [[nodiscard]] bool add(TokenId left, TokenId right, Merge merge);

  // Appends the tokens of `piece`, which must not be empty. Takes O(n log n) for n bytes.
  void apply(std::string_view piece, std::vector<TokenId>& ids) const;
  TokenId byte_token(char byte) const { return byte_tokens_[static_cast<uint8_t>(byte)]; }

 private:
  struct Slot {
    uint64_t pair{UINT64_MAX};  // a free slot: no pair has this value, as ids are not negative
    Merge merge;
  };

  Merge find(TokenId left, TokenId right) const;
  void apply_by_scan(std::string_view piece, std::vector<TokenId>& ids) const;
  void apply_by_heap(std::string_view piece, std::vector<TokenId>& ids) const;

  std::vector<Slot> slots_;  // hash table; its size is a power of two, and at most half of it is used
  size_t num_merges_{0};
  std::array<TokenId, 256> byte_tokens_;
};

}  // namespace nibble
