// The part of a mask that depends only on an automaton's state, kept to be copied if it took long to find:
// the tokens within the automaton's text, and the ends of that text at which a token continues.
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
