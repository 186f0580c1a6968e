// The part of a mask that depends only on an automaton's state: the tokens that stay within the automaton's
// text, and the ends of the text where a token goes on. It is kept for reuse if it took long to find.
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
  bool has_ends{true};  // whether text can follow the automaton's; if not, `ends` is empty
  std::vector<End> ends{};
  size_t num_nodes{0};  // number of nodes that the walk found legal
};

}  // namespace nibble::grammar
