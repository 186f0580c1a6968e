// Proposes what a smaller model says that has the same vocabulary. It runs in a backend of its own, with keys and values of its own, and
// drafts the likeliest tokens, one behind the other.
//
// The model reads a text only when drafts of it are wanted, so it may lag behind. Then it first runs what it has not read, at most one step
// of that a round, and a text that it has not caught up with has no drafts. Keys and values of drafts are kept where these came, and
// written over where others did. Texts that begin alike share pages. A text that gets no pages is given up: nothing is drafted for it
// again. None of that changes an answer.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "kv/prefix_cache.h"
#include "speculative/head.h"

namespace nibble::speculative {

struct DraftModelOptions {
  std::shared_ptr<Backend> backend{};           // null: no model drafts
  int num_full_pages{0}, num_sliding_pages{0};  // must equal the backend's
  int max_batch_tokens{0};                      // likewise
  int topk{1};                                  // tokens that it drafts for one place, at most
};

class ModelDrafter;

// The model, which drafts for all sequences of an engine.
class DraftModel {
 public:
  explicit DraftModel(const DraftModelOptions& options);
  DraftModel(const DraftModel&) = delete;
  DraftModel& operator=(const DraftModel&) = delete;

  // Time in which it read what it lagged behind by, beyond the two tokens that it may be behind in every round.
  struct CatchUp {
    double prompt_seconds{0}, answer_seconds{0};
  };
  // Drafts for the texts that want it, and forgets that they did. A backend that fails is not asked again.
  CatchUp run();

 private:
  friend class ModelDrafter;
  struct Reading;

  SequencePages empty_pages();
  std::vector<Reading> plan(std::vector<ModelDrafter*> wanting);
  CatchUp draft(std::span<Reading> readings);
  std::vector<std::vector<Draft>> step(std::span<const Run> runs);

  DraftModelOptions options_;
  SampleParams likeliest_;
  PagePool full_pool_, sliding_pool_;
  PrefixCache cache_;
  std::vector<ModelDrafter*> wanting_;
  bool has_failed_{false};
};

class ModelDrafter final : public Drafter {
 public:
  // The model must outlive it. Texts with different salts share no pages.
  explicit ModelDrafter(DraftModel& model, std::string_view cache_salt = {});

  void push(std::span<const TokenId> tokens) override;
  Proposal propose(int most) override { return made_.propose(most); }
  bool has_made_drafts() const override { return true; }
  void want(int num_drafts) override;

 private:
  friend class DraftModel;
  int num_filled() const { return pages_->length(); }
  int lag() const { return static_cast<int>(text_.size()) - num_filled(); }
  void keep_right_drafts(PrefixCache& cache);

  DraftModel* model_;
  std::string cache_salt_;
  std::vector<TokenId> text_;
  int num_prompt_tokens_{0};
  int num_wanted_{0};
  std::vector<TokenId> drafted_;        // whose keys and values lie behind those of the text
  HeadDrafter made_;                    // what is proposed
  std::optional<SequencePages> pages_;  // empty: the text is given up
};

}  // namespace nibble::speculative
