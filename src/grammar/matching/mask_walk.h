// Walks a tree of tokens to find those that may follow a row or an item (parser states: program/rows.h),
// where no precomputed bits can be copied. Inside the text of an automaton, a step is one look-up. The bytes
// that may follow that text are computed once per walk, and only if needed.
#pragma once

#include <cstdint>
#include <span>

#include "core/tokens/token_mask.h"
#include "grammar/program/rows.h"
#include "grammar/vocabulary/kept_mask.h"
#include "grammar/vocabulary/vocabulary_trie.h"

namespace nibble::grammar {

class MaskWalk {
 public:
  using Nodes = std::span<const VocabularyTrie::Node>;

  // Sets bits in `mask`. A walk adds rows after the last one of `rows` and removes them again.
  MaskWalk(Grammar& grammar, Rows& rows, std::span<uint32_t> mask)
      : grammar_(grammar), rows_(rows), mask_(mask) {}

  // Add to the mask the tokens that may follow a row or item. `nodes`: all children of a node, each followed
  // by its own subtree.
  void from_row(uint32_t row, Nodes nodes);
  void from_item(const Item& item, Nodes nodes);

  // Like from_item() above, for an automaton whose limits on the number of characters no single token can
  // violate. Adds to `within` the tokens that stay inside the automaton's text, and the places at which that
  // text can end, which from_ends() needs.
  void from_item(const Item& item, Nodes nodes, KeptMask& within);
  // Adds the tokens that continue after these ends of the item's text.
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
