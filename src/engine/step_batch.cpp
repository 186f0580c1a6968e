#include "engine/step_batch.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace nibble {
namespace {

constexpr TokenId kNotKnown[1 + kMaxDraftsOfHead]{};

}  // namespace

// The public constructor delegates to this one. Therefore the destructor runs, and removes the drafts, if the
// public constructor throws.
StepBatch::StepBatch(Launched& step) : step_(step) {
  step.num_prompt_rows.reserve(step.slices.size());
  step.output_rows.reserve(step.slices.size());
  for (const Slice& slice : step.slices) {
    step.num_prompt_rows.push_back(
        slice.sequence->take_prompt_rows(slice.first_position, slice.num_tokens, prompt_rows_));
    step.num_outputs += step.num_prompt_rows.back() + slice.gives_token;
  }
  for (const DraftTree& tree : step.trees) step.num_outputs += static_cast<int>(tree.rows.size());
  size_t num_added = 0;
  try {
    for (; num_added < step.trees.size(); ++num_added)
      step.slices[num_added].sequence->add_drafts(step.trees[num_added].drafts);
  } catch (...) {  // the destructor does not run after an exception in this constructor
    drop_drafts(num_added);
    throw;
  }
}

StepBatch::StepBatch(Launched& step, const Launched* under_way, const Head& head) : StepBatch(step) {
  outputs_.reserve(static_cast<size_t>(step.num_outputs));
  runs_.reserve(step.slices.size());
  size_t before = 0;  // index into the slices of `under_way`, whose sequences are in the same order
  for (size_t i = 0; i < step.slices.size(); ++i) {
    const size_t first_output = outputs_.size();
    add_outputs(i);
    runs_.push_back(run_of(i, first_output, head));
    const Slice& slice = step.slices[i];
    if (!slice.follows) continue;
    while (under_way->slices.at(before).request != slice.request) ++before;
    runs_.back().ahead = {.output_row = under_way->output_rows[before], .num_unsure = slice.num_unsure};
  }
}

StepBatch::~StepBatch() { drop_drafts(step_.trees.size()); }

void StepBatch::drop_drafts(size_t num_trees) {
  for (size_t i = 0; i < num_trees; ++i) step_.slices[i].sequence->drop_drafts(step_.trees[i].drafts.size());
}

void StepBatch::add_outputs(size_t i) {
  const Slice& slice = step_.slices[i];
  Sequence& sequence = *slice.sequence;
  // First row for prompt log-probabilities. The last prompt token's row is none of them: it samples the first
  // answer token.
  int row =
      std::min(slice.first_position + slice.num_tokens, static_cast<int>(sequence.prompt().size()) - 1) -
      slice.first_position - step_.num_prompt_rows[i];
  for (int n = 0; n < step_.num_prompt_rows[i]; ++n)
    outputs_.push_back({.token_index = row++, .sample = &prompt_rows_[num_prompt_outputs_++]});
  step_.output_rows.push_back(static_cast<int>(outputs_.size()));
  if (!slice.gives_token) return;
  const int num_known = slice.num_tokens - slice.num_drafts;
  const int index = slice.first_position + num_known - static_cast<int>(sequence.prompt().size());
  const auto output =
      sequence.output().first(sequence.output().size() - static_cast<size_t>(slice.num_drafts));
  outputs_.push_back({.token_index = num_known - 1,
                      .sample = &sequence.sample(output, index),
                      .prompt = sequence.prompt(),
                      .output = output,
                      .mask = sequence.mask()});
  add_tree(i, output);
}

// Adds the rows that verify drafts. `output`: the known tokens of the answer.
void StepBatch::add_tree(size_t i, std::span<const TokenId> output) {
  const Slice& slice = step_.slices[i];
  if (slice.num_drafts == 0) return;
  const DraftTree& tree = step_.trees[i];
  const Sequence& sequence = *slice.sequence;
  const int num_known = slice.num_tokens - slice.num_drafts;
  const bool is_chain = tree.is_chain();
  for (const DraftTree::Row& checked : tree.rows) {
    auto output_then = sequence.output().first(output.size() + static_cast<size_t>(checked.draft) + 1);
    if (!is_chain) {
      std::vector<TokenId>& tokens = outputs_then_.emplace_back(output.begin(), output.end());
      for (const TokenId draft : tree.drafts_to(checked.draft)) tokens.push_back(draft);
      output_then = tokens;
    }
    outputs_.push_back({.token_index = num_known + checked.draft,
                        .sample = &checked.sample,
                        .prompt = sequence.prompt(),
                        .output = output_then,
                        .mask = checked.allowed.get()});
  }
  if (is_chain) return;
  std::vector<int>& of_run = parents_.emplace_back(static_cast<size_t>(num_known));
  std::iota(of_run.begin(), of_run.end(), -1);
  for (const int draft : tree.parents) of_run.push_back(num_known + draft);
}

Run StepBatch::run_of(size_t i, size_t first_output, const Head& head) {
  Slice& slice = step_.slices[i];
  const Sequence& sequence = *slice.sequence;
  Run run{.first_position = slice.first_position,
          .full = std::exchange(slice.full, {}),
          .sliding = std::exchange(slice.sliding, {}),
          .outputs = std::span(outputs_).subspan(first_output),
          .drafted = {.count = slice.num_drafts},
          .adapter = sequence.adapter()};
  if (slice.num_drafts > 0 && !step_.trees[i].is_chain()) run.drafted.parents = parents_.back();
  if (!slice.gives_token)
    run.next = sequence.tokens()[static_cast<size_t>(slice.first_position + slice.num_tokens)];
  else if (head.is_there && step_.num_to_draft > 0 && num_drafting_++ < kMaxDraftingRuns)
    run.draft_request = {.num_tokens = step_.num_to_draft, .topk = head.topk};
  step_.all_draft &= !slice.gives_token || run.draft_request.has_value();
  if (slice.follows)
    run.tokens = std::span(kNotKnown).first(static_cast<size_t>(slice.num_tokens));
  else
    run.tokens = sequence.tokens().subspan(static_cast<size_t>(slice.first_position),
                                           static_cast<size_t>(slice.num_tokens));
  return run;
}

}  // namespace nibble
