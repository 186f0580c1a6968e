// Runs sequences on a backend. Keeps the pages and tokens of each sequence, and the logits of every position.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/numbers/random.h"
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
  // `num_pages`: pages of each KV cache of the backend. Sequences are assigned to the caches in turn.
  Feeder(std::unique_ptr<Backend> backend, int num_pages, int num_kv_caches = 1)
      : backend_(std::move(backend)) {
    for (int cache = 0; cache < num_kv_caches; ++cache) pools_.emplace_back(num_pages, cache * num_pages);
  }

  struct Part {
    int sequence;
    std::span<const TokenId> tokens;
    std::optional<AdapterId> adapter{};  // the same in all steps of a sequence
  };
  // Runs one step. Each part holds the next tokens of its sequence.
  void feed(const std::vector<Part>& parts) {
    std::vector<std::vector<OutputRow>> outputs(parts.size());
    std::vector<Run> runs;
    for (size_t p = 0; p < parts.size(); ++p) {
      while (std::ssize(sequences_) <= parts[p].sequence) add_sequence();
      SequencePages& pages = sequences_[parts[p].sequence].pages;
      ASSERT_TRUE(pages.reserve(static_cast<int>(parts[p].tokens.size())));
      for (int i = 0; i < std::ssize(parts[p].tokens); ++i)
        outputs[p].push_back({.token_index = i, .prompt = {}, .output = {}});
      runs.push_back({.tokens = parts[p].tokens,
                      .first_position = pages.length(),
                      .full = pages.full(),
                      .sliding = pages.sliding(),
                      .outputs = outputs[p],
                      .adapter = parts[p].adapter});
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
  // Runs a sequence's tokens in steps of `chunk` tokens.
  void feed_in_chunks(int sequence, std::span<const TokenId> tokens, size_t chunk) {
    for (size_t first = 0; first < tokens.size(); first += chunk)
      feed({{sequence, tokens.subspan(first, std::min(chunk, tokens.size() - first))}});
  }

  // Runs known tokens and a tree of drafts after the last of them, in one step with `other`. `parents` holds
  // the index of each draft's parent draft, or -1 for a draft that follows the last known token. Appends the
  // logits of the known tokens and of the right (greedy) drafts to the sequence. Returns the logits of all
  // drafts; `kept` receives the indices of the right drafts.
  std::vector<std::vector<float>> feed_tree(const Part& known, std::span<const TokenId> drafts,
                                            std::span<const int> parents, const Part& other,
                                            std::vector<int>& kept) {
    const SampleParams greedy;
    const auto num_known = static_cast<int>(known.tokens.size());
    const auto vocab = static_cast<ptrdiff_t>(backend_->config().vocab);
    std::vector<TokenId> tokens(known.tokens.begin(), known.tokens.end());
    tokens.insert(tokens.end(), drafts.begin(), drafts.end());
    std::vector<int> run_parents;
    for (int i = 0; i < num_known; ++i) run_parents.push_back(i - 1);
    for (const int parent : parents) run_parents.push_back(num_known + parent);
    std::vector<OutputRow> outputs, other_outputs;
    for (int i = 0; i < std::ssize(tokens); ++i) outputs.push_back({.token_index = i, .sample = &greedy});
    for (int i = 0; i < std::ssize(other.tokens); ++i) other_outputs.push_back({.token_index = i});
    SequencePages &pages = sequences_[known.sequence].pages, &other_pages = sequences_[other.sequence].pages;
    EXPECT_TRUE(pages.reserve(static_cast<int>(tokens.size())));
    EXPECT_TRUE(other_pages.reserve(static_cast<int>(other.tokens.size())));
    const Run runs[]{{.tokens = other.tokens,
                      .first_position = other_pages.length(),
                      .full = other_pages.full(),
                      .sliding = other_pages.sliding(),
                      .outputs = other_outputs,
                      .adapter = other.adapter},
                     {.tokens = tokens,
                      .first_position = pages.length(),
                      .full = pages.full(),
                      .sliding = pages.sliding(),
                      .outputs = outputs,
                      .drafted = {.count = static_cast<int>(drafts.size()), .parents = run_parents},
                      .adapter = known.adapter}};
    const StepResult result = backend_->step({.runs = runs, .want_logits = true});
    auto next = result.logits.begin();
    const auto take = [&](int sequence, ptrdiff_t num_rows) {
      auto& logits = sequences_[sequence].logits;
      logits.insert(logits.end(), next, next + num_rows * vocab);
      next += num_rows * vocab;
    };
    take(other.sequence, std::ssize(other.tokens));
    take(known.sequence, num_known);
    std::vector<std::vector<float>> of_drafts;
    for (size_t i = 0; i < drafts.size(); ++i, next += vocab) of_drafts.emplace_back(next, next + vocab);
    kept.clear();
    for (const int row : result.kept.at(1)) {
      kept.push_back(row - num_known);
      auto& logits = sequences_[known.sequence].logits;
      const std::vector<float>& of_draft = of_drafts[kept.back()];
      logits.insert(logits.end(), of_draft.begin(), of_draft.end());
    }
    pages.advance(num_known + static_cast<int>(kept.size()));
    pages.give_back_unfilled();
    other_pages.advance(static_cast<int>(other.tokens.size()));
    return of_drafts;
  }
  bool takes_trees() const { return backend_->takes_trees(); }

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
  void add_sequence() {
    const size_t cache = sequences_.size() % pools_.size();
    sequences_.push_back({SequencePages(pools_[cache], backend_->config().window), {}});
  }

  std::deque<PagePool> pools_;  // one pool for each KV cache
  std::vector<Sequence> sequences_;
};

// Expects `backend` to give up a step that is not needed, and then to run the same step with the result that
// `other` gives. Both backends have `num_pages` pages.
inline void expect_to_give_up_an_unneeded_step(Backend& backend, Backend& other, int num_pages) {
  const std::vector<TokenId> prompt = random_ids(40, backend.config().vocab, 3);
  const std::vector<OutputRow> outputs{{.token_index = 39, .prompt = {}, .output = {}}};
  PagePool pool(num_pages);
  SequencePages pages(pool, backend.config().window);
  ASSERT_TRUE(pages.reserve(40));
  const std::vector<Run> runs{{prompt, 0, pages.full(), pages.sliding(), outputs}};
  std::atomic<bool> is_unneeded{true};
  const Batch batch{.runs = runs, .want_logits = true, .is_unneeded = &is_unneeded};
  EXPECT_THROW(backend.step(batch), StepCut);
  is_unneeded = false;
  EXPECT_EQ(backend.step(batch).logits, other.step(batch).logits);
}

}  // namespace nibble
