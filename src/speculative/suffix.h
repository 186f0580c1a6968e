// Suffix decoding (arXiv 2411.04975): looks for the longest end of the sequence that occurred before, in the sequence itself or in an
// answer that this engine has finished, and counts what followed there. The counts decide which tokens are proposed, and when a proposal
// ends. A tree of them goes on wherever that is likeliest.
//
// In place of a suffix tree an index leads to the latest places of a few tokens, and a bounded number of them is looked at: a
// proposal takes a few microseconds, a token of the text a few bytes.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "speculative/drafter.h"
#include "speculative/text_index.h"

namespace nibble::speculative {

// Text with an index for long matches and one for short ones.
class IndexedText {
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

// Answers that an engine has finished. When a half is full, the older half is forgotten.
class FinishedTexts {
 public:
  // About 30 bytes a token.
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

// The finished answers of each salt: a request is drafted for from answers to requests with the same salt only. Together
// they have at most `max_tokens`, and those of the salt that was used least recently are forgotten first.
class FinishedTextsBySalt {
 public:
  explicit FinishedTextsBySalt(size_t max_tokens = size_t{1} << 18) : max_tokens_(max_tokens) {}
  // Stays valid, but gets no further answers, when the salt is forgotten.
  std::shared_ptr<const FinishedTexts> of(std::string_view salt) { return use(salt); }
  void add(std::string_view salt, std::span<const TokenId> answer);

 private:
  struct Texts {
    std::string salt;
    std::shared_ptr<FinishedTexts> texts;
  };
  std::shared_ptr<FinishedTexts> use(std::string_view salt);

  size_t max_tokens_;
  std::list<Texts> by_use_;  // the latest first
};

class SuffixDrafter final : public Drafter {
 public:
  // `finished` must outlive this. At most `topk` tokens are proposed for one place.
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
