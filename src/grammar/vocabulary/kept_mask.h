// The part of a mask that depends only on an automaton's state: the tokens that stay within the automaton's
// text, and the nodes of the token tree at which that text may end and a token continues. A mask that took
// long to find is then copied; only what may follow those ends is searched again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "grammar/vocabulary/vocabulary_trie.h"

namespace nibble::grammar {

struct KeptMask {
  struct End {
    const VocabularyTrie::Node* node;
    uint32_t state;
  };
  std::vector<uint32_t> mask;
  bool has_ends{true};  // false: no text can follow the automaton's
  std::vector<End> ends{};
  size_t num_nodes{0};  // nodes that the walk found legal
};

}  // namespace nibble::grammar
