// Runs sequences through a backend: keeps their pages and tokens, and the logits of every position.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/random.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"

namespace nibble {

inline std::vector<TokenId> random_ids(int count, int vocab, uint64_t seed) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) ids.push_back(static_cast<TokenId>(random_bits(seed, i) % vocab));
  return ids;
}

class Feeder {
 public:
  // `num_pages` is the number of pages of each kind that the backend was made with.
  Feeder(std::unique_ptr<Backend> backend, int num_pages)
      : backend_(std::move(backend)), full_(num_pages), sliding_(num_pages) {}

  struct Part {
    int sequence;
    std::span<const TokenId> tokens;
  };
  // Runs one step over the parts, each the next tokens of its sequence.
  void feed(const std::vector<Part>& parts) {
    std::vector<std::vector<OutputRow>> outputs(parts.size());
    std::vector<Run> runs;
    for (size_t p = 0; p < parts.size(); ++p) {
      while (std::ssize(sequences_) <= parts[p].sequence)
        sequences_.push_back({SequencePages(full_, sliding_, backend_->config().window), {}});
      SequencePages& pages = sequences_[parts[p].sequence].pages;
      ASSERT_TRUE(pages.reserve(static_cast<int>(parts[p].tokens.size())));
      for (int i = 0; i < std::ssize(parts[p].tokens); ++i)
        outputs[p].push_back({.token_index = i, .prompt = {}, .output = {}});
      runs.push_back({parts[p].tokens, pages.length(), pages.full(), pages.sliding(), outputs[p]});
    }
    const StepResult result = backend_->step({.runs = runs, .want_logits = true});
    auto next = result.logits.begin();
    for (const Part& part : parts) {
      Sequence& sequence = sequences_[part.sequence];
      const auto end = next + std::ssize(part.tokens) * backend_->config().vocab;
      sequence.logits.insert(sequence.logits.end(), next, end);
      next = end;
      sequence.pages.advance(static_cast<int>(part.tokens.size()));
    }
    ASSERT_EQ(next, result.logits.end());
  }
  // Runs a sequence's tokens in steps of `chunk`.
  void feed_in_chunks(int sequence, std::span<const TokenId> tokens, size_t chunk) {
    for (size_t first = 0; first < tokens.size(); first += chunk)
      feed({{sequence, tokens.subspan(first, std::min(chunk, tokens.size() - first))}});
  }

  const std::vector<float>& logits(int sequence) const { return sequences_[sequence].logits; }
  TokenId likeliest_next(int sequence) const {
    const auto last = logits(sequence).end() - backend_->config().vocab;
    return static_cast<TokenId>(std::max_element(last, logits(sequence).end()) - last);
  }

 private:
  struct Sequence {
    SequencePages pages;
    std::vector<float> logits;
  };
  std::unique_ptr<Backend> backend_;
  PagePool full_, sliding_;
  std::vector<Sequence> sequences_;
};

}  // namespace nibble
