#include "server/service/grammar_shelf.h"

#include <algorithm>

namespace nibble::server {

const grammar::VocabularyTrie& GrammarShelf::vocabulary() {
  std::call_once(has_vocabulary_,
                 [&] { vocabulary_ = std::make_unique<grammar::VocabularyTrie>(tokenizer_); });
  return *vocabulary_;
}

std::optional<grammar::Compiled> GrammarShelf::find(const grammar::Source& source) {
  const auto found = std::ranges::find_if(kept_, [&](const auto& kept) { return kept.first == source; });
  if (found == kept_.end()) return std::nullopt;
  kept_.splice(kept_.begin(), kept_, found);
  make_room();
  return kept_.front().second;
}

// Compiles without holding the lock, so two threads may compile the same source; one of the results is kept.
grammar::Compiled GrammarShelf::get(const grammar::Source& source) {
  {
    const std::lock_guard lock(mutex_);
    if (auto kept = find(source)) return *std::move(kept);
  }
  grammar::Compiled compiled = grammar::compile(source);
  if (source.text.size() > kMaxKeptBytes) return compiled;
  const std::lock_guard lock(mutex_);
  if (auto kept = find(source)) return *std::move(kept);
  kept_.emplace_front(source, compiled);
  make_room();
  return compiled;
}

void GrammarShelf::make_room() {
  size_t num_bytes = 0, num_kept = 0;
  auto first_dropped = kept_.begin();
  for (; first_dropped != kept_.end() && num_kept < kMaxGrammars; ++first_dropped, ++num_kept) {
    num_bytes += first_dropped->second.grammar->bytes();
    if (num_bytes > kMaxGrammarBytes && num_kept > 0) break;
  }
  kept_.erase(first_dropped, kept_.end());
}

}  // namespace nibble::server
