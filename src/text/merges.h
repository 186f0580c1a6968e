// The merge rules of byte-level BPE. Encoding starts from single bytes and merges, again and again, the adjacent pair with
// the lowest priority number, the leftmost of equals.
//
// A tokenizer.json lists its merges: the priority is the place in the list. A rank file lists tokens only: any two of its
// tokens whose bytes together are a third token may merge, and the priority is the third's rank. Both are read into this one
// table, so nothing is assumed about the order in a file.
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

  // Returns false if the pair already has a merge.
  [[nodiscard]] bool add(TokenId left, TokenId right, Merge merge);

  // Appends the tokens of a piece, which must not be empty, in O(n log n) steps for n bytes.
  void apply(std::string_view piece, std::vector<TokenId>& ids) const;
  TokenId byte_token(char byte) const { return byte_tokens_[static_cast<uint8_t>(byte)]; }

 private:
  struct Slot {
    uint64_t pair{UINT64_MAX};  // UINT64_MAX: free; ids are not negative, so no pair has this value
    Merge merge;
  };

  Merge find(TokenId left, TokenId right) const;
  void apply_by_scan(std::string_view piece, std::vector<TokenId>& ids) const;
  void apply_by_heap(std::string_view piece, std::vector<TokenId>& ids) const;

  std::vector<Slot> slots_;  // open addressing; the size is a power of two, at most half is used
  size_t num_merges_{0};
  std::array<TokenId, 256> byte_tokens_;
};

}  // namespace nibble
