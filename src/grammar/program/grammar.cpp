#include "grammar/program/grammar.h"

namespace nibble::grammar {
namespace {

template <typename T>
size_t bytes_of(const std::vector<T>& all) {
  return all.capacity() * sizeof(T);
}

}  // namespace

size_t Grammar::bytes() {
  const std::lock_guard lock(mutex);
  size_t num_bytes = bytes_of(ops) + bytes_of(targets) + bytes_of(rules) + bytes_of(terminals) +
                     expressions.bytes() + automata_bytes;
  for (const List& list : lists) num_bytes += sizeof list + bytes_of(list.first);
  for (const Members& of : members)
    num_bytes += sizeof of + bytes_of(of.positions) + bytes_of(of.values) + bytes_of(of.next_required) +
                 bytes_of(of.num_required) + bytes_of(of.undeclared);
  for (const Trie& trie : tries) num_bytes += trie.bytes();
  for (const auto& [key, kept] : masks) num_bytes += bytes_of(kept.mask) + bytes_of(kept.ends);
  return num_bytes;
}

}  // namespace nibble::grammar
