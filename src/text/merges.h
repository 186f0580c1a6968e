// Which two tokens merge into which third, and what merges first. Byte-level BPE starts from single bytes and merges,
// again and again, the adjacent pair of the lowest priority number, the leftmost of equals.
//
// A tokenizer.json lists its merges: the number is the place in the list. A rank file lists tokens only: every two of
// its tokens that together are a third may merge, and the number is the third's rank. Both become this one table, so
// that nothing needs to be assumed about the order in a file.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/token.h"

namespace nibble {

struct Merge {
  static constexpr uint32_t kNever{UINT32_MAX};
  uint32_t priority{kNever};
  TokenId result{0};
};

class Merges {
 public:
  // `byte_tokens` are the tokens of the single bytes.
  Merges(size_t max_merges, const std::array<TokenId, 256>& byte_tokens);

  // False where the pair has a merge already.
  [[nodiscard]] bool add(TokenId left, TokenId right, Merge merge);

  // Appends the tokens of a piece, which must not be empty. n bytes take O(n log n) steps.
  void apply(std::string_view piece, std::vector<TokenId>& ids) const;
  TokenId byte_token(char byte) const { return byte_tokens_[static_cast<uint8_t>(byte)]; }

 private:
  struct Slot {
    uint64_t pair{UINT64_MAX};  // no pair: ids are not negative
    Merge merge;
  };

  Merge find(TokenId left, TokenId right) const;
  void apply_by_scan(std::string_view piece, std::vector<TokenId>& ids) const;
  void apply_by_heap(std::string_view piece, std::vector<TokenId>& ids) const;

  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  size_t num_merges_{0};
  std::array<TokenId, 256> byte_tokens_;
};

}  // namespace nibble
