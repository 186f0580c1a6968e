// The ordinary tokens of a vocabulary as a tree of their bytes, in which a mask is found by one walk: tokens with a common beginning
// share the work, and where a byte is not legal the tokens behind it are skipped at once.
//
// Content is what most of a text in JSON is made of: whole characters of UTF-8 without a quote, a backslash, or a control character.
// 97 % of o200k's tokens are nothing else. Where any content may follow, their bits are copied from a mask that is made once, and only
// the other tokens are walked: 5,500 nodes in place of 415,000. If only so many characters may follow, there is a mask for that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/token.h"
#include "text/tokenizer.h"

namespace nibble::grammar {

class VocabularyTrie {
 public:
  static constexpr uint32_t kNoToken{0xFFFFFF};
  static constexpr uint32_t kMaxTokenBytes{
      255};  // longer ones are left out: no grammar ever allows them. o200k's longest has 128.

  // In the order of a depth-first walk: a node's children come right behind it.
  struct Node {
    uint32_t token : 24;  // that ends here
    uint32_t byte : 8;
    uint32_t num_below : 24;  // nodes to skip where `byte` is not legal
    uint32_t depth : 8;       // bytes up to and with this one
  };
  static_assert(sizeof(Node) == 8);

  // The tokenizer must outlive this.
  explicit VocabularyTrie(const Tokenizer& tokenizer);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::span<const Node> nodes() const { return nodes_; }              // of all tokens
  std::span<const Node> other_nodes() const { return other_nodes_; }  // of those that are not content
  size_t num_mask_words() const { return num_words_; }                // 32 tokens each

  // Sets the bits of all content tokens of at most `max_characters`.
  void add_content(uint32_t max_characters, std::span<uint32_t> mask) const;

 private:
  struct Entry {
    std::string_view bytes;
    TokenId token;
  };
  static std::vector<Node> tree_of(std::span<const Entry> sorted);

  // Masks are kept for up to so many characters, which is all but 230 of o200k's tokens, and one for any number.
  static constexpr uint32_t kMaxMaskCharacters{16};

  const Tokenizer* tokenizer_;
  size_t num_words_;
  std::vector<Node> nodes_, other_nodes_;
  std::vector<std::vector<uint32_t>> content_masks_;  // [characters], the last is of all
  struct LongToken {
    TokenId token;
    uint32_t num_characters;
  };
  std::vector<LongToken> long_content_;
};

}  // namespace nibble::grammar
