#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "grammar/languages/source.h"
#include "grammar/program/grammar.h"
#include "grammar/vocabulary/vocabulary_trie.h"
#include "text/tokenizer.h"

namespace nibble::server {

// The vocabulary trie, and a cache of compiled grammars: agents send the same tools with every request, and
// each tool needs a grammar. Thread-safe.
class GrammarShelf {
 public:
  // The tokenizer must outlive this object.
  explicit GrammarShelf(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  const grammar::VocabularyTrie& vocabulary();
  grammar::Compiled get(const grammar::Source& source);  // throws InputError

 private:
  // Number of grammars to keep: some agents offer more than a hundred tools.
  static constexpr size_t kMaxGrammars{256};
  // Bytes of all kept grammars. A single one may take 64 MiB.
  static constexpr size_t kMaxGrammarBytes{256 << 20};
  static constexpr size_t kMaxKeptBytes{1 << 16};  // bytes; grammars with a longer source are not kept

  // Returns a grammar from the cache. Called with mutex_ locked.
  std::optional<grammar::Compiled> find(const grammar::Source& source);
  // Drops the least recently used grammars until the cache is within its limits. find() calls it too, because
  // the memory of a grammar grows while the grammar is used.
  void make_room();

  const Tokenizer& tokenizer_;
  std::once_flag has_vocabulary_;
  std::unique_ptr<grammar::VocabularyTrie> vocabulary_;
  std::mutex mutex_;                                               // guards kept_
  std::list<std::pair<grammar::Source, grammar::Compiled>> kept_;  // most recently used first
};

}  // namespace nibble::server
