// Compiles the format and the tools of a request to constraints on its answers.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "grammar/languages/source.h"
#include "grammar/vocabulary/vocabulary_trie.h"
#include "server/api/tools.h"
#include "server/service/prompt.h"
#include "server/service/service.h"

namespace nibble::server {

// The vocabulary trie, built at first use, and a cache of compiled grammars: agents send the same tools with
// every request. Thread-safe.
class GrammarShelf {
 public:
  // The tokenizer must outlive this.
  explicit GrammarShelf(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  const grammar::VocabularyTrie& vocabulary();
  // Throws InputError.
  grammar::Compiled get(const grammar::Source& source);

 private:
  static constexpr size_t kMaxGrammars{256};            // agents offer a hundred tools and more
  static constexpr size_t kMaxGrammarBytes{256 << 20};  // in total; one grammar may take 64 MiB
  static constexpr size_t kMaxKeptBytes{1 << 16};       // of a source; larger ones are compiled each time

  // Returns the grammar from the cache. Called with mutex_ locked.
  std::optional<grammar::Compiled> find(const grammar::Source& source);
  // Drops the least recently used grammars over the limits. Lookups call it too, because grammars grow in
  // use.
  void make_room();

  const Tokenizer& tokenizer_;
  std::once_flag has_vocabulary_;
  std::unique_ptr<grammar::VocabularyTrie> vocabulary_;
  std::mutex mutex_;                                               // guards kept_
  std::list<std::pair<grammar::Source, grammar::Compiled>> kept_;  // most recently used first
};

// Constrains a chat's answers to harmony's channels and headers, to calls of callable tools with arguments as
// declared, to a final message in the format, and to the limit of reasoning. Sets no constraint if the
// request needs none of these, or with ignore_eos. Adds what is not enforced to params.ignored. Throws
// HttpError (400).
asio::awaitable<void> constrain_chat(Service& service, GenerationParams& params,
                                     const std::vector<OfferedTool>& offered, const ChatPrompt& prompt,
                                     std::vector<GenerationRequest>& requests);

// Constrains answers to the format from their first token on.
asio::awaitable<void> constrain_text(Service& service, GenerationParams& params,
                                     std::vector<GenerationRequest>& requests);

}  // namespace nibble::server
