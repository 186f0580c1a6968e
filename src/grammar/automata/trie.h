// A set of texts as a tree with shared prefixes. Symbols are bytes or code points.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nibble::grammar {

class Trie {
 public:
  static constexpr uint32_t kRoot{0};
  static constexpr uint32_t kNone{0};  // result of child() without a child; the root is never a child

  // `texts` must be sorted and unique.
  explicit Trie(const std::vector<std::u32string>& texts);
  static std::u32string bytes_of(std::string_view text);        // each byte is a symbol
  static std::u32string code_points_of(std::string_view text);  // `text` must be well-formed UTF-8

  uint32_t child(uint32_t node, char32_t symbol) const;
  bool accepts(uint32_t node) const { return nodes_[node].accepts; }
  bool has_children(uint32_t node) const { return nodes_[node].first_child != nodes_[node + 1].first_child; }

  // Return the range of indices of the texts that start with the node's text. If the node accepts, the first
  // of them is the node's text itself.
  uint32_t first_text(uint32_t node) const { return nodes_[node].first_text; }
  uint32_t end_text(uint32_t node) const { return nodes_[node].end_text; }

  size_t bytes() const { return nodes_.capacity() * sizeof(Node); }
  size_t num_nodes() const { return nodes_.size() - 1; }
  char32_t symbol(uint32_t node) const { return nodes_[node].symbol; }

 private:
  struct Node {
    uint32_t symbol : 31;
    uint32_t accepts : 1;
    // Nodes are in breadth-first order: a node's children end where the next node's children begin.
    uint32_t first_child;
    uint32_t first_text, end_text;
  };
  std::vector<Node> nodes_;  // the last one is a sentinel that ends its predecessor's children
};

}  // namespace nibble::grammar
