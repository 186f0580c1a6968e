// Proposes the tokens of a smaller model with the same vocabulary. That model runs in a backend of its own,
// with its own KV cache, and drafts the likeliest tokens one after another. The draft model reads a text (the
// tokens of a sequence) only when drafts for the text are requested, so a text may have unread tokens (a
// lag). A call of run() first runs unread tokens, at most one step of them, and makes drafts only if none are
// left. Keys and values of accepted drafts are kept; those of rejected drafts are overwritten. Texts with a
// common prefix share pages. Once a text finds no free pages or its context is full, it gets no more drafts.
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
  std::shared_ptr<Backend> backend{};  // null: no draft model
  int num_pages{0};                    // same number as the main backend has
  int max_batch_tokens{0};             // same number as the main backend has
  int topk{1};                         // maximum number of tokens drafted for one position
};

class ModelDrafter;

class DraftModel {  // one for all sequences of an engine
 public:
  explicit DraftModel(const DraftModelOptions& options);
  DraftModel(const DraftModel&) = delete;
  DraftModel& operator=(const DraftModel&) = delete;

  // Time that the draft model took for unread tokens of prompts and of answers. Two tokens of each text do
  // not count: even a text with drafts in every step has two unread tokens when run() begins.
  struct CatchUp {
    double prompt_seconds{0}, answer_seconds{0};
  };
  // Makes drafts for the texts whose want() was called since the last run(). Once the draft model has failed,
  // does nothing.
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
  PagePool pool_;
  PrefixCache cache_;
  std::vector<ModelDrafter*> wanting_;
  bool has_failed_{false};
};

class ModelDrafter final : public Drafter {
 public:
  // `model` must outlive this object. Texts with different salts share no pages.
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
  std::vector<TokenId> drafted_;        // drafts whose keys and values are stored after those of the text
  HeadDrafter made_;                    // holds the drafts to propose
  std::optional<SequencePages> pages_;  // not set: the text gets no more drafts
};

}  // namespace nibble::speculative
