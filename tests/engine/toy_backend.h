// A backend whose model is a function of the whole context, and whose paged cache holds tokens instead of
// keys and values. It reads the context back through the page tables, so a wrong page, position or chunk
// changes the text. It checks the backend contract (backend/contract.h) in every step. With `steps_ahead` it
// runs a step only in wait(), and then fills in the tokens that were unknown when the step was launched. If
// drafts are requested, it makes them as a draft head does, some right and some wrong.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/draft_tree.h"
#include "backend/sample.h"
#include "core/numbers/random.h"
#include "engine/engine.h"

namespace nibble {

// A function from the context to the logits [V] of the next token. May throw.
using ToyModel = std::function<std::vector<float>(std::span<const TokenId> context)>;

// Vocabulary size of the bundled tokenizer, whose tokens 0 to 255 are single bytes, printable ASCII first.
constexpr int kToyVocab{4096};

// The logits depend on every token of the context and its position. They favour the letters a to f, so that
// stop strings occur. Some tokens are bytes that are half a character, or part of no character.
inline std::vector<float> toy_logits(std::span<const TokenId> context) {
  uint64_t state = 1;
  for (const TokenId token : context) state = mix64(state ^ static_cast<uint64_t>(token));
  std::vector<float> logits(kToyVocab, -std::numeric_limits<float>::infinity());
  for (size_t v = 0; v < 256; ++v) {
    logits[v] = static_cast<float>(random_unit(state, v) * 6);
    if (v >= 'a' - '!' && v <= 'f' - '!') logits[v] += 3;
  }
  return logits;
}

// Returns a model that samples the tokens of `script`, one after another, after any prompt of this length.
inline ToyModel scripted(size_t num_prompt_tokens, std::vector<TokenId> script) {
  return [=](std::span<const TokenId> context) {
    std::vector<float> logits(kToyVocab, 0.0f);
    logits[static_cast<size_t>(script.at(context.size() - num_prompt_tokens))] = 10;
    return logits;
  };
}

class ToyBackend : public Backend {
 public:
  ToyBackend(const EngineOptions& options, ToyModel model, int steps_ahead = 0, int window = 48)
      : model_(std::move(model)),
        steps_ahead_(steps_ahead),
        max_batch_tokens_(options.max_batch_tokens),
        slots_(static_cast<size_t>(options.num_pages * kPageTokens)) {
    config_.vocab = kToyVocab;
    config_.window = window;
    config_.max_context = 4096;
  }

  std::string_view name() const override { return "toy"; }
  const Config& config() const override { return config_; }
  std::vector<KernelChoice> kernels() const override { return {}; }
  int num_steps() const { return num_steps_; }  // to be called only when the engine is destroyed or idle

  bool takes_trees() const override { return true; }
  int steps_ahead() const override { return steps_ahead_; }
  void launch(const Batch& batch) override {
    EXPECT_LE(std::ssize(launched_), steps_ahead_);
    if (steps_ahead_ == 0) return Backend::launch(batch);
    auto copy = std::make_unique<CopiedBatch>();
    copy->num_failures = num_failures_;
    for (const Run& run : batch.runs) copy->runs.emplace_back(run);
    // Launch last: if anything throws before, no step was launched.
    launched_.push_back(std::move(copy));
  }
  StepResult wait() override {
    if (steps_ahead_ == 0) return Backend::wait();
    const std::unique_ptr<CopiedBatch> copy = std::move(launched_.front());
    launched_.pop_front();
    // This step would read what the failed step should have written.
    if (copy->num_failures != num_failures_) throw std::runtime_error("the step before could not be run");
    try {
      return run_launched(*copy);
    } catch (...) {
      ++num_failures_;
      throw;
    }
  }

  StepResult step(const Batch& batch) override {
    ++num_steps_;
    check(batch);
    for (const Run& run : batch.runs) {
      const std::vector<PlaceInRun> places = places_of(run);
      for (size_t i = 0; i < run.tokens.size(); ++i) {
        const int slot = run.first_position + static_cast<int>(i);
        at(slots_, run.full, slot) = {run.tokens[i], places[i].position};
        at(slots_, run.sliding, slot) = {run.tokens[i], places[i].position};
      }
    }
    StepResult result;
    for (const Run& run : batch.runs) {
      const std::vector<PlaceInRun> places = places_of(run);
      for (const OutputRow& row : run.outputs) {
        const std::vector<TokenId> context = read_context(run, places[static_cast<size_t>(row.token_index)]);
        if (!std::equal(row.output.rbegin(), row.output.rend(), context.rbegin()))
          ADD_FAILURE() << "the row's output is not what it sees";
        std::vector<float> logits = model_(context);
        result.outputs.push_back(sample(logits, row, static_cast<int>(context.size())));
      }
    }
    make_drafts(batch, result);
    result.kept = keep_right_drafts(batch, result.outputs, [&](const Run& run, int from, int to) {
      at(slots_, run.full, to) = at(slots_, run.full, from);
      at(slots_, run.sliding, to) = at(slots_, run.sliding, from);
    });
    return result;
  }

 private:
  class CopiedMask : public TokenMask {
   public:
    explicit CopiedMask(TokenMask* given) : words_(mask_words(kToyVocab)) {
      if (given) given->fill(words_);
    }
    void fill(std::span<uint32_t> words) override { std::copy(words_.begin(), words_.end(), words.begin()); }

   private:
    std::vector<uint32_t> words_;
  };

  // The tokens that a step appended to the text of an output row.
  struct Behind {
    std::vector<TokenId> tokens{};  // accepted drafts, then the token chosen after them
    std::vector<TokenId> drafts{};  // new drafts after `tokens`
  };

  // A copy of a run that does not refer to the batch.
  struct CopiedRun {
    explicit CopiedRun(const Run& given)
        : run(given),
          tokens(given.tokens.begin(), given.tokens.end()),
          full(given.full.pages.begin(), given.full.pages.end()),
          sliding(given.sliding.pages.begin(), given.sliding.pages.end()),
          parents(given.drafted.parents.begin(), given.drafted.parents.end()),
          rows(given.outputs.begin(), given.outputs.end()) {
      EXPECT_TRUE(!run.ahead || static_cast<int>(tokens.size()) == 1 + run.drafted.count);
      for (OutputRow& row : rows) {
        samples.push_back(*row.sample);
        masks.emplace_back(row.mask);
        row.prompt = texts.emplace_back(row.prompt.begin(), row.prompt.end());
        row.output = texts.emplace_back(row.output.begin(), row.output.end());
      }
    }
    // Returns the run as it would be in a step whose tokens are all known.
    Run view(std::span<const Behind> last) {
      int num_right = 0;
      if (run.ahead) {
        const Behind& behind = last[static_cast<size_t>(run.ahead->output_row)];
        num_right = static_cast<int>(behind.tokens.size()) - 1;
        EXPECT_LE(num_right, run.ahead->num_unsure);
        tokens[0] = behind.tokens.back();
        for (size_t draft = 1; draft < tokens.size(); ++draft) tokens[draft] = behind.drafts[draft - 1];
        std::vector<TokenId> known;
        if (!rows.empty()) known.assign(rows[0].output.begin(), rows[0].output.end());
        for (size_t i = 0; i < rows.size(); ++i) {
          std::vector<TokenId>& text = texts[2 * i + 1];
          text = known;
          text.insert(text.end(), behind.tokens.begin(), behind.tokens.end());
          text.insert(text.end(), tokens.begin() + 1, tokens.begin() + rows[i].token_index + 1);
          rows[i].output = text;
        }
      }
      for (size_t i = 0; i < rows.size(); ++i) {
        rows[i].sample = &samples[i];
        if (rows[i].mask) rows[i].mask = &masks[i];
      }
      return {.tokens = tokens,
              .first_position = run.first_position + num_right,
              .full = {full, run.full.first_page},
              .sliding = {sliding, run.sliding.first_page},
              .outputs = rows,
              .drafted = {.count = run.drafted.count, .parents = parents},
              .next = run.next,
              .draft_request = run.draft_request};
    }

    Run run;  // copied without the data of its spans, which the other members hold
    std::vector<TokenId> tokens;
    std::vector<PageId> full, sliding;
    std::vector<int> parents;
    std::vector<OutputRow> rows;
    std::vector<SampleParams> samples;
    std::deque<CopiedMask> masks;
    std::deque<std::vector<TokenId>> texts;  // prompt and output of each row
  };
  struct CopiedBatch {
    std::deque<CopiedRun> runs;
    int num_failures{0};  // number of failed steps before this launch
  };

  StepResult run_launched(CopiedBatch& copy) {
    std::vector<Run> runs;
    for (CopiedRun& run : copy.runs) runs.push_back(run.view(behind_));
    behind_.clear();
    for (const Run& run : runs)
      for (const OutputRow& row : run.outputs)
        behind_.push_back({{0}, std::vector<TokenId>(row.sample ? kMaxDraftsOfHead : 0)});
    StepResult result = step({.runs = runs});
    std::span<const SampledToken> chosen = result.outputs;
    auto behind = behind_.begin();
    for (size_t n = 0; n < runs.size(); ++n) {
      const auto of_run = chosen.first(runs[n].outputs.size());
      chosen = chosen.subspan(of_run.size());
      const std::vector<int> path = right_path(runs[n], of_run);
      for (size_t i = 0; i < of_run.size(); ++i, ++behind) {
        behind->tokens = {std::max(of_run[i].token, 0)};
        if (runs[n].outputs[i].token_index != path[0]) continue;
        behind->tokens.clear();
        for (size_t right = 1; right < path.size(); ++right)
          behind->tokens.push_back(runs[n].tokens[static_cast<size_t>(path[right])]);
        for (size_t other = 0; other < of_run.size(); ++other)
          if (runs[n].outputs[other].token_index == path.back())
            behind->tokens.push_back(std::max(of_run[other].token, 0));
        if (!result.drafts.empty())
          for (size_t draft = 0; draft < result.drafts[n].tokens.size(); ++draft)
            behind->drafts[draft] = result.drafts[n].tokens[draft].token;
      }
    }
    return result;
  }

  struct Cell {
    TokenId token{-1};
    int position{-1};
  };

  static Cell& at(std::vector<Cell>& cells, const PageTableView& table, int position) {
    const int page = position / kPageTokens - table.first_page;
    const auto place = static_cast<size_t>(table.pages[static_cast<size_t>(page)]) * kPageTokens;
    return cells.at(place + static_cast<size_t>(position % kPageTokens));
  }

  // Makes a chain of drafts for each run that requests drafts. The chain follows the token that was chosen
  // after the run's last accepted draft. A third of the drafts are random tokens, the others the likeliest.
  void make_drafts(const Batch& batch, StepResult& result) {
    std::span<const SampledToken> chosen = result.outputs;
    for (size_t n = 0; n < batch.runs.size(); ++n) {
      const Run& run = batch.runs[n];
      const auto of_run = chosen.first(run.outputs.size());
      chosen = chosen.subspan(of_run.size());
      if (!begins_drafts(run) || of_run.empty()) continue;
      const std::vector<int> path = right_path(run, of_run);
      const PlaceInRun place = places_of(run)[static_cast<size_t>(path.back())];
      TokenId token = -1;
      for (size_t i = 0; i < of_run.size(); ++i)
        if (run.outputs[i].token_index == path.back()) token = of_run[i].token;
      if (token < 0) continue;
      result.drafts.resize(batch.runs.size());
      result.drafts[n].first_position = place.position + 2;
      std::vector<TokenId> context = read_context(run, place);
      for (int draft = 0; draft < run.draft_request->num_tokens; ++draft) {
        context.push_back(token);
        const uint64_t chance = mix64(context.size() + static_cast<uint64_t>(token));
        token = chance % 3 == 0 ? static_cast<TokenId>(chance % kToyVocab) : likeliest_behind(context);
        result.drafts[n].tokens.push_back({.token = token, .probability = 0.5f});
      }
    }
  }
  TokenId likeliest_behind(std::span<const TokenId> context) {
    try {
      const std::vector<float> logits = model_(context);
      return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    } catch (const std::exception&) {  // the end of a script was reached
      return 0;
    }
  }

  // Does not use EXPECT_EQ: under sanitizers, millions of EXPECT_EQ took most of the time.
  std::vector<TokenId> read_context(const Run& run, const PlaceInRun& place) {
    std::vector<TokenId> context;
    const int last = place.position;
    for (int p = 0; p <= last; ++p) {
      const Cell& cell = at(slots_, run.full, slot_of(p, last, place.path));
      if (cell.position != p) ADD_FAILURE() << "a page of a full layer was overwritten at " << p;
      context.push_back(cell.token);
    }
    for (int p = std::max(0, last - config_.window + 1); p <= last; ++p) {
      const Cell& cell = at(slots_, run.sliding, slot_of(p, last, place.path));
      if (cell.position != p || cell.token != context[static_cast<size_t>(p)])
        ADD_FAILURE() << "a page of a sliding layer was overwritten at " << p;
    }
    return context;
  }

  // Returns whether `other` holds a page that the run with the table `written` writes. A run writes its pages
  // from `first_position` on, and may share only its earlier pages with other runs.
  static bool writes_what_is_in(const PageTableView& written, int first_position,
                                const PageTableView& other) {
    const auto first = static_cast<size_t>(first_position / kPageTokens - written.first_page);
    return std::any_of(written.pages.begin() + static_cast<ptrdiff_t>(first), written.pages.end(),
                       [&](PageId page) {
                         return std::find(other.pages.begin(), other.pages.end(), page) != other.pages.end();
                       });
  }

  void check(const Batch& batch) const {
    size_t num_rows = 0;
    EXPECT_FALSE(batch.runs.empty());
    for (const Run& run : batch.runs) {
      EXPECT_FALSE(run.tokens.empty());
      const int last_page = (run.first_position + static_cast<int>(run.tokens.size()) - 1) / kPageTokens;
      for (const PageTableView& table : {run.full, run.sliding})
        ASSERT_LT(last_page - table.first_page, std::ssize(table.pages))
            << "no page covers the last position";
      num_rows += run.tokens.size();
      for (const Run& other : batch.runs) {
        if (&other == &run) continue;
        EXPECT_FALSE(writes_what_is_in(run.full, run.first_position, other.full));
        EXPECT_FALSE(writes_what_is_in(run.sliding, run.first_position, other.sliding));
      }
      const std::vector<PlaceInRun> places = places_of(run);
      for (const OutputRow& row : run.outputs) {
        EXPECT_TRUE(&row == &run.outputs.front() || row.token_index > (&row)[-1].token_index);
        EXPECT_LT(row.token_index, static_cast<int>(run.tokens.size()));
        if (row.prompt.empty()) continue;  // a row of the prompt, for its log-probabilities
        EXPECT_EQ(row.prompt.size() + row.output.size(),
                  static_cast<size_t>(places[static_cast<size_t>(row.token_index)].position) + 1);
      }
    }
    EXPECT_LE(num_rows, static_cast<size_t>(max_batch_tokens_));
  }

  Config config_;
  ToyModel model_;
  int steps_ahead_;
  std::deque<std::unique_ptr<CopiedBatch>> launched_;
  int num_failures_{0};         // failed steps so far
  std::vector<Behind> behind_;  // what the last step added after each of its output rows
  int max_batch_tokens_;
  std::vector<Cell> slots_;  // the slots of all pages
  int num_steps_{0};
};

}  // namespace nibble
