// The ordinary tokens of a vocabulary as a tree of their bytes, in which a mask is found by one walk: tokens with a common beginning
// share the work, and where a byte is not legal the tokens behind it are skipped at once.
//
// Tokens of content (content.h) are in trees of their slices as well, so that what can be copied from masks need not be walked: in a
// JSON string 5,500 nodes are left of 415,000. If only so many characters may follow, there is a mask for that.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/token.h"
#include "grammar/vocabulary/content.h"
#include "text/tokenizer.h"

namespace nibble::grammar {

class VocabularyTrie {
 public:
  static constexpr uint32_t kNoToken{0x7FFFFF};
  static constexpr uint32_t kMaxTokenBytes{
      255};  // longer ones are left out: no grammar ever allows them. o200k's longest has 128.

  // In the order of a depth-first walk: a node's children come right behind it.
  struct Node {
    uint32_t token : 23;             // that ends here
    uint32_t has_content_below : 1;  // and nothing else: every token below is content as a whole
    uint32_t byte : 8;
    uint32_t num_below : 24;  // nodes to skip where `byte` is not legal
    uint32_t depth : 8;       // bytes up to and with this one
  };
  static_assert(sizeof(Node) == 8);

  // Takes 0.15 s and 9 MB for 200,000 tokens, once for all grammars. The tokenizer must outlive this.
  explicit VocabularyTrie(const Tokenizer& tokenizer);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::span<const Node> nodes() const { return nodes_; }              // of all tokens
  std::span<const Node> other_nodes() const { return other_nodes_; }  // of those that are not content
  // The nodes of one of kNumContentSlices slices; each content token is in one.
  std::span<const Node> slice_nodes(size_t slice) const { return slices_[slice].nodes; }
  // The characters of that slice's longest token.
  uint32_t most_characters(size_t slice) const { return slices_[slice].most_characters; }
  // Words of a mask: one bit for each id below tokenizer().num_tokens(), rounded up to 32.
  size_t num_mask_words() const { return num_words_; }
  // The mask of free text: all tokens of the tree.
  std::span<const uint32_t> ordinary_mask() const { return ordinary_mask_; }

  // There are masks of content for up to so many characters, which is all but 230 of o200k's tokens, and for any number.
  static constexpr uint32_t kMaxMaskCharacters{16};
  struct LongToken {  // of more than these
    TokenId token;
    uint32_t num_characters;
    size_t slice;
  };
  std::span<const LongToken> long_content() const { return long_content_; }

  // Sets the bits of the content tokens of at most `max_characters` characters that are in these slices (bit i: slice i), and clears
  // none. `mask` has num_mask_words() words.
  void add_content(uint32_t slices, uint32_t max_characters, std::span<uint32_t> mask) const;

 private:
  struct Entry {
    std::string_view bytes;
    TokenId token;
    bool is_content;
  };
  struct Slice {
    std::vector<Node> nodes;
    std::vector<uint32_t> mask;
    uint32_t most_characters{0};
  };
  static std::vector<Node> tree_of(std::span<const Entry> sorted);

  const Tokenizer* tokenizer_;
  size_t num_words_;
  std::vector<uint32_t> ordinary_mask_;
  std::vector<Node> nodes_, other_nodes_;
  std::array<Slice, kNumContentSlices> slices_;
  std::vector<std::vector<uint32_t>>
      content_masks_;  // of all slices, by characters; the last is of any number
  std::vector<LongToken> long_content_;
};

}  // namespace nibble::grammar
