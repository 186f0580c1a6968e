// One sequence's place in a grammar: which tokens may come next, which must, and whether the text may end here.
//
//   Matcher matcher(grammar, vocabulary);
//   while (!finished) {
//     matcher.fill_mask(mask);             // bits of legal tokens; with is_complete() the text's end is legal too
//     matcher.accept(sample(logits, mask));
//   }
//
// A place is an index into arrays that only grow: rollback() cuts them, and a copy of the matcher is a fork. Matchers of one grammar
// may be used by different threads at once; one matcher by one thread at a time.
//
// accept(), fill_mask() and the forced ones throw InputError where the grammar turns out to need more memory or work than limits.h
// allows. The matcher is then of no more use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/token.h"
#include "grammar/grammar.h"
#include "grammar/rows.h"
#include "grammar/vocabulary_trie.h"

namespace nibble::grammar {

class Matcher {
 public:
  // The vocabulary, and its tokenizer, must outlive this.
  Matcher(std::shared_ptr<Grammar> grammar, const VocabularyTrie& vocabulary);

  // Sets a bit for every ordinary token whose bytes may follow and clears all others: bit token % 32 of word token / 32, of
  // vocabulary.num_mask_words() words. None is set if the text must end here, and only then.
  void fill_mask(std::span<uint32_t> mask);
  // False, and nothing has changed, if the token, or the text, may not follow.
  bool accept(TokenId token);
  bool accept(std::string_view bytes);  // counts as one step for rollback()
  // Whether the text may end here.
  bool is_complete() const { return rows_.is_complete(rows_.last()); }
  // Whether it must: no byte may follow.
  bool is_finished();

  // The bytes that must come next, whatever they are part of: up to a place where there is a choice, or the text may end.
  std::string forced_bytes();
  // The tokens that must come next: those of forced_bytes() that a model would write, as the text is encoded. Where tokens were
  // accepted that its encoding does not have, or a longer token may begin in the last bytes, the rest is left to sampling.
  std::vector<TokenId> forced_tokens();

  // Steps that were accepted, and going back to an earlier number of them.
  size_t num_steps() const { return steps_.size(); }
  void rollback(size_t num_steps);

 private:
  struct Content;
  struct Step {
    uint32_t row;  // the last one before it
    uint32_t num_bytes;
    TokenId token;  // kNoTokenId: bytes
  };
  static constexpr TokenId kNoTokenId{-1};

  bool accept(std::string_view bytes, TokenId token);
  bool advance(std::string_view bytes);
  bool may_run_past(std::string_view beginning);
  void add_item(const Item& item, std::span<uint32_t> mask);
  bool may_go_on_behind(const Item& item);
  Content content_behind(const Item& item);
  void add_content(const Content& content, uint32_t slices, std::span<uint32_t> mask) const;
  void try_long_content(const Item& item, const Content& content, std::span<uint32_t> mask);

  std::shared_ptr<Grammar> grammar_;
  const VocabularyTrie* vocabulary_;
  Rows rows_;
  std::vector<Step> steps_;
};

}  // namespace nibble::grammar
