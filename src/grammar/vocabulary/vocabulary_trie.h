// The ordinary tokens of a vocabulary as a tree of their bytes. Tokens with a common prefix share the work of
// finding a mask, and an illegal byte skips its subtree. Content tokens (content.h) have separate trees, one
// per slice. If all tokens of a slice are legal, the slice's mask is copied and its tree is not walked: in a
// JSON string, only 5,500 of 415,000 nodes are walked.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tokens/token.h"
#include "grammar/vocabulary/content.h"
#include "text/tokenizer.h"

namespace nibble::grammar {

class VocabularyTrie {
 public:
  static constexpr uint32_t kNoToken{0x7FFFFF};
  // Longer tokens are left out and never allowed. The longest token of o200k has 128 bytes.
  static constexpr uint32_t kMaxTokenBytes{255};

  // Nodes are in depth-first order: the nodes of a subtree directly follow its root.
  struct Node {
    uint32_t token : 23;             // the token that ends here, or kNoToken
    uint32_t has_content_below : 1;  // whether all tokens in the subtree are content
    uint32_t byte : 8;
    uint32_t num_below : 24;  // number of nodes in the subtree, without this one
    uint32_t depth : 8;       // number of bytes from the root, including this one
  };
  static_assert(sizeof(Node) == 8);

  // Takes 0.15 s and 9 MB for 200,000 tokens, once for all grammars. The tokenizer must outlive this object.
  explicit VocabularyTrie(const Tokenizer& tokenizer);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::span<const Node> nodes() const { return nodes_; }  // the tree of all ordinary tokens
  std::span<const Node> other_nodes() const { return other_nodes_; }
  // Returns the nodes of a slice. Each content token is in exactly one slice.
  std::span<const Node> slice_nodes(size_t slice) const { return slices_[slice].nodes; }
  // Returns the number of characters of the slice's longest token.
  uint32_t most_characters(size_t slice) const { return slices_[slice].most_characters; }
  // Returns the number of 32-bit words of a mask. A mask has a bit for each id below
  // tokenizer().num_tokens(); the rest of the last word is unused.
  size_t num_mask_words() const { return num_words_; }
  std::span<const uint32_t> ordinary_mask() const { return ordinary_mask_; }  // mask of all tokens in nodes()

  // For each maximum length up to this one, the mask of the content tokens of at most that length is
  // precomputed. Only 230 of o200k's content tokens are longer.
  static constexpr uint32_t kMaxMaskCharacters{16};
  struct LongToken {  // a content token of more than kMaxMaskCharacters characters
    TokenId token;
    uint32_t num_characters;
    size_t slice;
  };
  std::span<const LongToken> long_content() const { return long_content_; }

  // Sets the bits in `mask` (num_mask_words() words) of the content tokens that have at most `max_characters`
  // characters and are in a selected slice. Bit i of `slices` selects slice i. Clears no bit.
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
  // Content tokens of all slices, by maximum number of characters; the last mask has no limit.
  std::vector<std::vector<uint32_t>> content_masks_;
  std::vector<LongToken> long_content_;
};

}  // namespace nibble::grammar
