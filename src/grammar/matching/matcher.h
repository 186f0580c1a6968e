// One sequence's place in a grammar: which tokens may come next, which must, and if the text may end here.
//
//   Matcher matcher(grammar, vocabulary);
//   while (!matcher.is_finished()) {
//     matcher.fill_mask(mask);             // bits of legal tokens; with is_complete() the text's end is legal too
//     matcher.accept(sample(logits, mask));
//   }
//
// A place is an index into arrays that only grow: rollback() cuts them, and a copy of the matcher is a fork. Matchers of one grammar
// may be used by different threads at once, and then wait for each other; one matcher by one thread at a time.
//
// A matcher takes some kilobytes, and at most kMaxArenaBytes (limits.h). A call takes microseconds, and at most kMaskFuel steps, which are
// some tens of milliseconds. All but rollback(), num_steps() and is_complete() throw InputError where the grammar turns out to need more
// than that; the matcher is then of no more use, and the grammar is to be refused.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/token.h"
#include "grammar/program/grammar.h"
#include "grammar/program/rows.h"
#include "grammar/vocabulary/vocabulary_trie.h"

namespace nibble::grammar {

class Matcher {
 public:
  // Stands at the beginning of the text. The vocabulary, and its tokenizer, must outlive this and the grammar.
  Matcher(std::shared_ptr<Grammar> grammar, const VocabularyTrie& vocabulary);

  // Sets a bit for every ordinary token whose bytes may follow and clears all others: bit token % 32 of word token / 32. `mask` has
  // exactly vocabulary.num_mask_words() words; a model's logits may be more, and no text has those. Special tokens are never set: the
  // caller adds what ends the text where is_complete(). No bit is set if the text must end here, and only then.
  void fill_mask(std::span<uint32_t> mask);
  // Goes on by a token, or by a text of up to some thousand bytes. False, and nothing has changed, if it may not follow; always for
  // special tokens and ids that are none. Either is one step for rollback().
  bool accept(TokenId token);
  bool accept(std::string_view bytes);
  // True if the text may end here.
  bool is_complete() const { return rows_.is_complete(rows_.last()); }
  // True if it must: no byte may follow.
  bool is_finished();

  // The bytes that must come next, whatever tokens they are part of: up to a place where there is a choice, or the text may end, or 256
  // of them. Changes nothing.
  std::string forced_bytes();
  // The tokens that must come next: those of forced_bytes() that a model would write, as the whole text is encoded; often none. Where
  // tokens were accepted that its encoding does not have, or a longer token may begin in the last bytes, the rest is left to sampling.
  // Each of them is in the mask at its place. Changes nothing.
  std::vector<TokenId> forced_tokens();

  // How many calls of accept() were true, and going back to when there were so many. More of them than there were is a bug.
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
