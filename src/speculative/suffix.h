// Suffix decoding (arXiv 2411.04975). Finds the longest suffix of the sequence that occurred before, in the
// sequence or in an answer that this engine finished, and counts the tokens that followed. The counts
// determine which tokens are proposed, and how many. A tree of proposals grows at its likeliest leaf. Instead
// of a suffix tree, an index maps a few tokens to their latest occurrences; a limited number of occurrences
// is compared. A proposal takes a few microseconds, and each token of indexed text about 40 bytes.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "speculative/drafter.h"
#include "speculative/text_index.h"

namespace nibble::speculative {

class IndexedText {  // a text with two indices: for long and for short matches
 public:
  void push(TokenId token) {
    long_.push(token);
    short_.push(token);
  }
  const TextIndex& of_long_runs() const { return long_; }
  const TextIndex& of_short_runs() const { return short_; }
  std::span<const TokenId> tokens() const { return short_.tokens(); }

 private:
  TextIndex long_{8}, short_{3};
};

class FinishedTexts {  // stored in two halves: when the newer half is full, the older one is dropped
 public:
  // Uses about 40 bytes of memory per token, because each token is in two indices.
  explicit FinishedTexts(size_t max_tokens = size_t{1} << 18) : max_half_(max_tokens / 2) {}
  void add(std::span<const TokenId> answer);
  const IndexedText& newer() const { return *newer_; }
  const IndexedText& older() const { return *older_; }
  size_t num_tokens() const { return newer_->tokens().size() + older_->tokens().size(); }

 private:
  size_t max_half_;
  std::unique_ptr<IndexedText> newer_{std::make_unique<IndexedText>()},
      older_{std::make_unique<IndexedText>()};
};

// The finished answers, by salt: drafts come only from answers of the same salt. Holds at most `max_tokens`
// tokens; answers of the least recently used salt are dropped first.
class FinishedTextsBySalt {
 public:
  explicit FinishedTextsBySalt(size_t max_tokens = size_t{1} << 18) : max_tokens_(max_tokens) {}
  // The result stays valid after its salt is dropped, but then gets no more answers.
  std::shared_ptr<const FinishedTexts> of(std::string_view salt) { return use(salt); }
  void add(std::string_view salt, std::span<const TokenId> answer);

 private:
  struct Texts {
    std::string salt;
    std::shared_ptr<FinishedTexts> texts;
  };
  std::shared_ptr<FinishedTexts> use(std::string_view salt);

  size_t max_tokens_;
  std::list<Texts> by_use_;  // most recently used first
};

class SuffixDrafter final : public Drafter {
 public:
  // `finished` must outlive this object. Proposes at most `topk` tokens for one position.
  explicit SuffixDrafter(const FinishedTexts& finished, int topk = 1) : finished_(&finished), topk_(topk) {}
  void push(std::span<const TokenId> tokens) override {
    for (const TokenId token : tokens) text_.push(token);
  }
  Proposal propose(int most) override;

 private:
  const FinishedTexts* finished_;
  int topk_;
  IndexedText text_;
};

}  // namespace nibble::speculative
