// The state of one sequence in a grammar: which tokens may or must come next, and whether the text may end.
//   Matcher matcher(grammar, vocabulary);
//   while (!matcher.is_finished()) {
//     matcher.fill_mask(mask);  // bits of legal tokens; with is_complete() the text may also end
//     matcher.accept(sample(logits, mask));
//   }
// The state is an index into arrays that only grow: rollback() truncates them, and copying a matcher forks
// it. Several threads may use matchers of one grammar (they wait for each other), but not the same matcher.
//
// A matcher takes some kilobytes, at most kMaxArenaBytes (limits.h). A call takes microseconds, at most
// kMaskFuel steps (some tens of milliseconds). All functions except rollback(), num_steps() and is_complete()
// throw InputError if the grammar needs more. The matcher is then unusable, and the caller should refuse the
// grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokens/token.h"
#include "grammar/program/grammar.h"
#include "grammar/program/rows.h"
#include "grammar/vocabulary/vocabulary_trie.h"

namespace nibble::grammar {

class Matcher {
 public:
  // The vocabulary and its tokenizer must outlive this object and the grammar.
  Matcher(std::shared_ptr<Grammar> grammar, const VocabularyTrie& vocabulary);

  // Sets a bit for every ordinary token whose bytes may follow and clears all others: bit token % 32 of word
  // token / 32. `mask` has vocabulary.num_mask_words() words. Special tokens are never set: if is_complete(),
  // the caller adds the tokens that end the text. No bit is set if and only if the text must end here.
  void fill_mask(std::span<uint32_t> mask);
  // Advances by a token, or by bytes (a few thousand at most); both count as one step for rollback(). Returns
  // false and changes nothing if the token or bytes may not follow. Special tokens and unknown ids are never
  // accepted.
  bool accept(TokenId token);
  bool accept(std::string_view bytes);
  // Whether the text may end here.
  bool is_complete() const { return rows_.is_complete(rows_.last()); }
  // Whether the text must end here.
  bool is_finished();

  // Returns the bytes that must come next, at most 256: up to the first place at which two different bytes
  // may follow or the text may end.
  std::string forced_bytes();
  // Returns forced_bytes() as tokens, as a model would write them: the tokenizer encodes the accepted text
  // and the forced bytes together. Empty if the accepted tokens differ from that encoding. Stops before bytes
  // at which a longer token may begin. Each token is in the mask at its position. Changes nothing.
  std::vector<TokenId> forced_tokens();

  // Returns the number of successful accept() calls. rollback(n) undoes all calls after the first n <=
  // num_steps().
  size_t num_steps() const { return steps_.size(); }
  void rollback(size_t num_steps);

 private:
  struct Content;
  struct Step {
    uint32_t row;  // last row before this step
    uint32_t num_bytes;
    TokenId token;  // kNoTokenId if accept() got bytes
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
