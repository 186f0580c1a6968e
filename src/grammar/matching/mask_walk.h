// Walks a tree of tokens and finds those that may follow a row or one of its items. Matcher::fill_mask uses
// it where no mask can be copied.
//
// While the text belongs to one item, a step is one look-up in its automaton, and no row is added: the walk
// keeps one state per depth of the tree. Where the automaton's text may end, what may follow is computed once
// for the whole walk, and a row is added only if a token really continues there.
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

  // A walk sets bits in `mask`. It adds rows after the last one, and removes them again.
  MaskWalk(Grammar& grammar, Rows& rows, std::span<uint32_t> mask)
      : grammar_(grammar), rows_(rows), mask_(mask) {}

  // Add the tokens of `nodes` that may follow the row or the item. `nodes`: all children of one node, with
  // their subtrees.
  void from_row(uint32_t row, Nodes nodes);
  void from_item(const Item& item, Nodes nodes);

  // Like from_item, for an automaton whose characters are not counted. Tokens that stay within the
  // automaton's text go to `within`, not to the mask.
  void from_item(const Item& item, Nodes nodes, KeptMask& within);
  // Adds to the mask the tokens that continue after these ends.
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
