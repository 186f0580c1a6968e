// The part of a mask that depends only on an automaton's state: the tokens that lie wholly within the
// automaton's text, and the places inside longer tokens where that text may end. This part is kept for reuse
// if the walk over the vocabulary's trie that found it was long.
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
  bool has_ends{true};  // whether text can follow the automaton's text; if not, `ends` is empty
  std::vector<End> ends{};
  size_t num_nodes{0};  // number of legal nodes in the walk
};

}  // namespace nibble::grammar
