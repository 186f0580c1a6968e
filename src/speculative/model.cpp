#include "speculative/model.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "backend/draft_chain.h"
#include "core/errors/check.h"
#include "core/program/log.h"
#include "core/system/clock.h"

namespace nibble::speculative {
namespace {

// Usual number of unread tokens of a text when run() begins: the last accepted draft, and the token after it.
constexpr int kUsualLag{2};

// Whether the full pages that `tokens` and `other` have in common are more than the pages that `num_filled`
// tokens of `tokens` fill. If so, `tokens` waits until `other` has filled them, and then shares them.
bool has_more_in_common(std::span<const TokenId> tokens, std::span<const TokenId> other, int num_filled) {
  const auto [end, _] = std::mismatch(tokens.begin(), tokens.end() - 1, other.begin(), other.end());
  return (end - tokens.begin()) / kPageTokens > num_filled / kPageTokens;
}

}  // namespace

struct DraftModel::Reading {  // rows and drafts of one text in a run()
  ModelDrafter* text;
  int first_position, num_rows;
  int num_drafts;  // drafts to make; 0 if unread tokens remain
};

DraftModel::DraftModel(const DraftModelOptions& options)
    : options_(options),
      likeliest_{.num_logprobs = options.topk > 1 ? options.topk : 0},
      pool_(options.num_pages),
      cache_(pool_, options.backend->config().window) {
  NIBBLE_CHECK(options.max_batch_tokens > 0, "{} rows", options.max_batch_tokens);
}

SequencePages DraftModel::empty_pages() { return {pool_, options_.backend->config().window}; }

DraftModel::CatchUp DraftModel::run() {
  std::vector<ModelDrafter*> wanting = std::exchange(wanting_, {});
  if (has_failed_) return {};
  std::vector<Reading> readings = plan(std::move(wanting));
  if (readings.empty()) return {};
  try {
    return draft(readings);
  } catch (const std::exception& error) {
    has_failed_ = true;
    log::warn("the draft model failed and is disabled: {}", error.what());
    return {};
  }
}

// Texts with the smallest lag come first: one long backlog must not delay the drafts of the others.
std::vector<DraftModel::Reading> DraftModel::plan(std::vector<ModelDrafter*> wanting) {
  // If a text has not grown since its last drafts, it needs no new drafts.
  std::erase_if(wanting, [](const ModelDrafter* text) { return !text->pages_ || text->lag() == 0; });
  for (ModelDrafter* text : wanting) text->keep_right_drafts(cache_);
  std::ranges::stable_sort(wanting,
                           [](const ModelDrafter* a, const ModelDrafter* b) { return a->lag() < b->lag(); });
  std::vector<Reading> readings;
  int num_rows_left = options_.max_batch_tokens;
  for (ModelDrafter* text : wanting) {
    const int num_rows = std::min(text->lag(), num_rows_left);
    if (num_rows == 0) break;
    const auto fills_the_same = [&](const Reading& other) {
      return other.num_rows > kUsualLag && other.text->cache_salt_ == text->cache_salt_ &&
             has_more_in_common(text->text_, other.text->text_, text->num_filled());
    };
    if (text->lag() > kUsualLag && std::ranges::any_of(readings, fills_the_same)) continue;
    const int num_drafts = num_rows == text->lag() ? text->num_wanted_ : 0;
    const int num_positions = num_rows + std::max(0, num_drafts - 1);
    if (text->num_filled() + num_positions > options_.backend->config().max_context ||
        !text->pages_->reserve(num_positions)) {
      text->pages_.reset();
      continue;
    }
    readings.push_back({text, text->num_filled(), num_rows, num_drafts});
    num_rows_left -= num_rows;
  }
  return readings;
}

DraftModel::CatchUp DraftModel::draft(std::span<Reading> readings) {
  static const OutputRow kNone{};
  std::vector<OutputRow> outputs(readings.size(), kNone);
  std::vector<Run> runs;
  int num_rows = 0, num_behind = 0, num_of_prompts = 0, num_rounds = 0;
  for (size_t i = 0; i < readings.size(); ++i) {
    const Reading& reading = readings[i];
    const ModelDrafter& text = *reading.text;
    outputs[i] = {.token_index = reading.num_rows - 1, .sample = &likeliest_, .prompt = {}, .output = {}};
    runs.push_back({.tokens = std::span(text.text_)
                                  .subspan(static_cast<size_t>(reading.first_position),
                                           static_cast<size_t>(reading.num_rows)),
                    .first_position = reading.first_position,
                    .full = text.pages_->full(),
                    .sliding = text.pages_->sliding(),
                    .outputs = std::span(outputs).subspan(i, reading.num_drafts > 0 ? 1 : 0)});
    const int behind = std::max(0, reading.num_rows - (reading.num_drafts > 0 ? kUsualLag : 0));
    num_rows += reading.num_rows;
    num_behind += behind;
    num_of_prompts += std::clamp(text.num_prompt_tokens_ - reading.first_position, 0, behind);
    num_rounds = std::max(num_rounds, reading.num_drafts);
  }
  const Stopwatch clock;
  std::vector<std::vector<Draft>> last = step(runs);
  const double seconds_of_row = clock.seconds() / num_rows;
  for (const Reading& reading : readings) reading.text->pages_->advance(reading.num_rows);

  std::vector<Drafts> drafts;
  std::vector<ModelDrafter*> texts;
  for (const Reading& reading : readings) {
    if (reading.num_drafts == 0) continue;
    add_level(drafts.emplace_back(), last[texts.size()]);
    texts.push_back(reading.text);
  }
  outputs.assign(texts.size(), {.token_index = 0, .sample = &likeliest_, .prompt = {}, .output = {}});
  for (int num_made = 1; num_made < num_rounds; ++num_made) {
    runs.clear();
    for (size_t i = 0; i < texts.size(); ++i) {
      if (num_made >= texts[i]->num_wanted_) continue;
      texts[i]->drafted_.push_back(likeliest_of_last_level(drafts[i]).token);
      runs.push_back({.tokens = std::span(texts[i]->drafted_).last(1),
                      .first_position = static_cast<int>(texts[i]->text_.size()) - 1 + num_made,
                      .full = texts[i]->pages_->full(),
                      .sliding = texts[i]->pages_->sliding(),
                      .outputs = std::span(outputs).subspan(i, 1)});
    }
    last = step(runs);
    auto next = last.begin();
    for (size_t i = 0; i < texts.size(); ++i)
      if (num_made < texts[i]->num_wanted_) add_level(drafts[i], *next++);
  }
  for (size_t i = 0; i < texts.size(); ++i) texts[i]->made_.take(drafts[i]);
  return {.prompt_seconds = seconds_of_row * num_of_prompts,
          .answer_seconds = seconds_of_row * (num_behind - num_of_prompts)};
}

// Returns the likeliest tokens for each output row.
std::vector<std::vector<Draft>> DraftModel::step(std::span<const Run> runs) {
  std::vector<std::vector<Draft>> levels;
  for (const SampledToken& chosen : options_.backend->step({.runs = runs}).outputs) {
    std::vector<Draft>& level = levels.emplace_back();
    level.push_back({.token = chosen.token, .probability = std::exp(chosen.logprob)});
    for (const TokenLogprob& other : chosen.top)
      if (other.token != chosen.token && std::ssize(level) < options_.topk)
        level.push_back({.token = other.token, .probability = std::exp(other.logprob)});
  }
  return levels;
}

ModelDrafter::ModelDrafter(DraftModel& model, std::string_view cache_salt)
    : model_(&model), cache_salt_(cache_salt), pages_(model.empty_pages()) {}

void ModelDrafter::push(std::span<const TokenId> tokens) {
  if (text_.empty()) num_prompt_tokens_ = static_cast<int>(tokens.size());
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  made_.push(tokens);
}

void ModelDrafter::want(int num_drafts) {
  num_wanted_ = num_drafts;
  model_->wanting_.push_back(this);
}

// Keeps keys and values of accepted drafts, except for the text's last token, which always runs again. A text
// with many unread tokens switches to pages of other texts if these cover more of it than its own pages.
void ModelDrafter::keep_right_drafts(PrefixCache& cache) {
  const auto behind = std::span(text_).subspan(static_cast<size_t>(num_filled()));
  const auto [end, _] = std::mismatch(drafted_.begin(), drafted_.end(), behind.begin(), behind.end() - 1);
  pages_->advance(static_cast<int>(end - drafted_.begin()));
  drafted_.clear();
  pages_->give_back_unfilled();
  pages_->add_to(cache, text_, cache_salt_);
  if (lag() <= kPageTokens) return;
  const Prefix known = cache.find(text_, cache_salt_);
  if (known.num_tokens() <= num_filled()) return;
  pages_.emplace(model_->empty_pages());
  pages_->resume(known);
}

}  // namespace nibble::speculative
