#include <algorithm>

#include "grammar/automata/expressions.h"

namespace nibble::grammar {

bool Expressions::continues_any(Expression a) const {
  const Node& n = node(a);
  const auto does = [&](Expression part) { return continues_any(part); };
  switch (n.kind) {
    case Kind::kAnything:
      return true;
    // If the texts have bounded length, their complement contains every longer text.
    case Kind::kNot:
      return node(static_cast<Expression>(n.a)).max_length != kUnlimited;
    case Kind::kAnyOf:
      return std::ranges::any_of(operands(n), does);
    case Kind::kAllOf: {
      const auto is_cofinite = [&](Expression part) {
        return node(part).kind == Kind::kNot && continues_any(part);
      };
      return std::ranges::all_of(operands(n), is_cofinite);
    }
    case Kind::kConcat:
      return static_cast<Expression>(n.a) == Expression::kAnything &&
             !node(static_cast<Expression>(n.b)).may_be_empty;
    default:
      return false;
  }
}

// Estimates the memory. In a hash table, an entry takes its data, a next pointer and half a bucket pointer.
size_t Expressions::bytes() const {
  constexpr size_t kPointers{12};
  size_t num_bytes = nodes_.capacity() * sizeof(Node) + operands_.capacity() * sizeof(Expression) +
                     slots_.capacity() * sizeof(uint32_t) +
                     derivatives_.size() * (sizeof(uint64_t) + sizeof(uint64_t) + kPointers);
  for (const CodePoints& set : sets_)
    num_bytes += sizeof set + set.ranges().capacity() * sizeof(CodePointRange);
  for (const Trie& trie : tries_) num_bytes += trie.bytes();
  return num_bytes;
}

std::vector<CodePoints> Expressions::sets_of(Expression root) const {
  std::vector<CodePoints> found;
  std::vector<bool> is_seen(nodes_.size()), set_seen(sets_.size());
  std::vector<bool> trie_seen(tries_.size());
  bool has_multiple = false;
  std::vector<uint32_t> open{static_cast<uint32_t>(root)};
  const auto push = [&](uint32_t id) {
    if (!is_seen[id]) open.push_back(id);
    is_seen[id] = true;
  };
  is_seen[open[0]] = true;
  while (!open.empty()) {
    const Node& n = nodes_[open.back()];
    open.pop_back();
    switch (n.kind) {
      case Kind::kSet:
        if (!set_seen[n.a]) found.push_back(sets_[n.a]);
        set_seen[n.a] = true;
        break;
      case Kind::kConcat:
        push(n.a);
        push(n.b);
        break;
      case Kind::kAnyOf:
      case Kind::kAllOf:
        for (const Expression part : operands(n)) push(static_cast<uint32_t>(part));
        break;
      case Kind::kNot:
      case Kind::kRepeat:
        push(n.a);
        break;
      case Kind::kTrie: {
        if (trie_seen[n.a]) break;
        trie_seen[n.a] = true;
        CodePoints symbols;
        for (uint32_t at = 1; at < tries_[n.a].num_nodes(); ++at)
          if (const char32_t c = tries_[n.a].symbol(at); !symbols.contains(c)) {
            symbols.add(c, c);
            found.push_back({{c, c}});
          }
        break;
      }
      case Kind::kMultiple:
        has_multiple = true;
        break;
      default:
        break;
    }
  }
  if (has_multiple)
    for (const char32_t c : U"-.0123456789")
      if (c != 0) found.push_back({{c, c}});
  return found;
}

}  // namespace nibble::grammar
