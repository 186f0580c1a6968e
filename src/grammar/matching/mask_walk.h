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
#include <vector>

#include "core/token_mask.h"
#include "grammar/program/rows.h"
#include "grammar/vocabulary/kept_mask.h"
#include "grammar/vocabulary/vocabulary_trie.h"

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

  // from_item, of an automaton whose characters are not counted; what is within goes there and not into the mask.
  void from_item(const Item& item, Nodes nodes, KeptMask& within);
  // The tokens that go on behind these ends, into the mask.
  void from_ends(const Item& item, std::span<const KeptMask::End> ends);

 private:
  static void set(const VocabularyTrie::Node& node, std::span<uint32_t> mask) {
    if (node.token != VocabularyTrie::kNoToken) add_token(mask, static_cast<TokenId>(node.token));
  }
  template <typename Path>
  void from_state(Path path, Nodes nodes, KeptMask* within);
  void from_items(uint32_t row, Nodes nodes);

  Grammar& grammar_;
  Rows& rows_;
  std::span<uint32_t> mask_;
};

}  // namespace nibble::grammar
