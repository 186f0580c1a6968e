// Compiles what a request asks of its answer, and gives it to the requests for the engine.
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

// The vocabulary as grammars walk it, made at first use, and the grammars that were used last: agents send the same tools with every
// request. All threads may use it.
class GrammarShelf {
 public:
  // The tokenizer must outlive this.
  explicit GrammarShelf(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  const grammar::VocabularyTrie& vocabulary();
  // Throws InputError.
  grammar::Compiled get(const grammar::Source& source);

 private:
  static constexpr size_t kMaxGrammars{256};            // agents offer a hundred tools and more
  static constexpr size_t kMaxGrammarBytes{256 << 20};  // of all of them: each may have 64 MiB
  static constexpr size_t kMaxKeptBytes{1 << 16};       // of a source: larger ones are compiled each time

  // The compiled grammar, if it is kept. With the lock.
  std::optional<grammar::Compiled> find(const grammar::Source& source);
  // Drops those that were used longest ago; those grow that are in use.
  void make_room();

  const Tokenizer& tokenizer_;
  std::once_flag has_vocabulary_;
  std::unique_ptr<grammar::VocabularyTrie> vocabulary_;
  std::mutex mutex_;                                               // of kept_
  std::list<std::pair<grammar::Source, grammar::Compiled>> kept_;  // used last comes first
};

// The answers of a chat: the channels and headers of harmony, calls of the tools that may be called with arguments as they are declared,
// a final message of the format, and no more reasoning than may be. Without any of these, and with ignore_eos, there is no constraint. What
// is not enforced is added to params.ignored. Throws HttpError (400).
asio::awaitable<void> constrain_chat(Service& service, GenerationParams& params,
                                     const std::vector<OfferedTool>& offered, const ChatPrompt& prompt,
                                     std::vector<GenerationRequest>& requests);

// Answers that are of the format from their first token on.
asio::awaitable<void> constrain_text(Service& service, GenerationParams& params,
                                     std::vector<GenerationRequest>& requests);

}  // namespace nibble::server
