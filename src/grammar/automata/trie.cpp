#include "grammar/automata/trie.h"

#include "grammar/limits.h"
#include "text/utf8.h"

namespace nibble::grammar {

Trie::Trie(const std::vector<std::u32string>& texts) {
  nodes_.push_back({0, 0, 0, 0, to_index(texts.size())});
  std::vector<uint32_t> depths{0};
  for (size_t at = 0; at < nodes_.size(); ++at) {
    Node node = nodes_[at];
    node.first_child = to_index(nodes_.size());
    const uint32_t depth = depths[at];
    uint32_t text = node.first_text;
    if (text < node.end_text && texts[text].size() == depth) {
      node.accepts = 1;
      ++text;
    }
    while (text < node.end_text) {
      const char32_t symbol = texts[text][depth];
      uint32_t end = text + 1;
      while (end < node.end_text && texts[end][depth] == symbol) ++end;
      nodes_.push_back({symbol & 0x7FFFFFFF, 0, 0, text, end});
      depths.push_back(depth + 1);
      text = end;
    }
    nodes_[at] = node;
  }
  nodes_.push_back({0, 0, to_index(nodes_.size()), 0, 0});
}

uint32_t Trie::child(uint32_t node, char32_t symbol) const {
  uint32_t begin = nodes_[node].first_child, end = nodes_[node + 1].first_child;
  while (end - begin > 8) {
    const uint32_t middle = begin + (end - begin) / 2;
    (nodes_[middle].symbol <= symbol ? begin : end) = middle;
  }
  for (; begin < end; ++begin)
    if (nodes_[begin].symbol == symbol) return begin;
  return kNone;
}

std::u32string Trie::bytes_of(std::string_view text) {
  std::u32string symbols;
  for (const char byte : text) symbols += static_cast<unsigned char>(byte);
  return symbols;
}

std::u32string Trie::code_points_of(std::string_view text) {
  std::u32string symbols;
  while (!text.empty()) {
    const Character character = first_character(text);
    symbols += character.code_point;
    text.remove_prefix(character.num_bytes);
  }
  return symbols;
}

}  // namespace nibble::grammar
