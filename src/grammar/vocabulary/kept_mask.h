// Keeps the part of a mask that depends on nothing but an automaton's state: tokens that stay within the automaton's text, and the
// places in the tree of tokens where that text may end and a token goes on. With it a mask that took long is found again by copying, and
// by trying what comes behind those ends.
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
  bool has_ends{true};  // false: nothing can come behind the automaton's text
  std::vector<End> ends{};
  size_t num_nodes{0};  // that were found legal one by one
};

}  // namespace nibble::grammar
