// The walk over a tree of tokens that finds those that may follow a row, or one of its items: what Matcher::fill_mask does where no
// mask can be copied.
//
// While only one item waits for text, a step is one look-up in its automaton and no row is made: at each depth of the tree there is a
// state. Where the automaton's text may end, what comes behind it is worked out once for the whole walk, and a row is made only where a
// token really goes on there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "grammar/rows.h"
#include "grammar/vocabulary_trie.h"

namespace nibble::grammar {

class MaskWalk {
 public:
  using Nodes = std::span<const VocabularyTrie::Node>;

  // Bits are set in `mask`. Rows behind the last are made on the way, and removed.
  MaskWalk(Grammar& grammar, Rows& rows, std::span<uint32_t> mask)
      : grammar_(grammar), rows_(rows), mask_(mask) {}

  // `nodes` are all children of one node, with what is below them; the row, or the item, lies in front of their bytes.
  void from_row(uint32_t row, Nodes nodes);
  void from_item(const Item& item, Nodes nodes);

  size_t num_nodes() const { return num_nodes_; }  // that were legal, of those that were looked at one by one
  // Whether an item's text ended inside a token: what was found then depends on what may come behind it.
  bool has_reached_end() const { return has_reached_end_; }

 private:
  void set(const VocabularyTrie::Node& node) {
    if (node.token != VocabularyTrie::kNoToken) mask_[node.token / 32] |= 1u << (node.token % 32);
  }
  template <typename Path>
  void from_state(Path path, Nodes nodes);
  void from_items(uint32_t row, Nodes nodes);

  Grammar& grammar_;
  Rows& rows_;
  std::span<uint32_t> mask_;
  size_t num_nodes_{0};
  bool has_reached_end_{false};
};

}  // namespace nibble::grammar
