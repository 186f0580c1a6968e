// A set of texts as a tree that shares their beginnings. Symbols are bytes or code points.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nibble::grammar {

class Trie {
 public:
  static constexpr uint32_t kRoot{0};
  static constexpr uint32_t kNone{0};  // as a child: the root is nobody's

  // `texts` must be sorted, each once.
  explicit Trie(const std::vector<std::u32string>& texts);
  static std::u32string bytes_of(std::string_view text);        // each byte a symbol
  static std::u32string code_points_of(std::string_view text);  // which must be well-formed UTF-8

  uint32_t child(uint32_t node, char32_t symbol) const;
  bool accepts(uint32_t node) const { return nodes_[node].accepts; }
  bool has_children(uint32_t node) const { return nodes_[node].first_child != nodes_[node + 1].first_child; }

  // The texts that begin with the node's are those of these places in `texts`; if it accepts, the first of them is its own.
  uint32_t first_text(uint32_t node) const { return nodes_[node].first_text; }
  uint32_t end_text(uint32_t node) const { return nodes_[node].end_text; }

  size_t bytes() const { return nodes_.capacity() * sizeof(Node); }
  size_t num_nodes() const { return nodes_.size() - 1; }
  char32_t symbol(uint32_t node) const { return nodes_[node].symbol; }

 private:
  struct Node {
    uint32_t symbol : 31;
    uint32_t accepts : 1;
    uint32_t
        first_child;  // its children end where the next node's begin, as nodes are in the order of their depth
    uint32_t first_text, end_text;
  };
  std::vector<Node> nodes_;  // one more than there are
};

}  // namespace nibble::grammar
