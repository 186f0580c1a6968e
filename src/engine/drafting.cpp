#include "engine/drafting.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "core/errors/error.h"

namespace nibble {
namespace {

std::optional<speculative::Speculator> speculator_of(const EngineOptions& options, const Backend& backend) {
  if (options.speculation.drafters.empty()) return std::nullopt;
  speculative::SpeculationOptions speculation = options.speculation;
  if (speculation.by_cost && !backend.tries_trees()) speculation.topk = 1;
  if (speculation.topk > 1 && !backend.takes_trees())
    throw InputError(
        "topk is {}, which makes trees of drafts, but the {} backend supports only chains: leave topk out",
        speculation.topk, backend.name());
  return std::optional<speculative::Speculator>(std::move(speculation));
}

}  // namespace

Drafting::Drafting(const EngineOptions& options, const Backend& backend)
    : speculator_(speculator_of(options, backend)),
      launches_before_drafts_(backend.steps_ahead() > 0 && speculator_ && speculator_->has_head_alone()),
      max_batch_tokens_(options.max_batch_tokens) {}

bool Drafting::waits_for_tokens(const Launched& under_way) const {
  return speculator_ && speculator_->is_drafting() && !(launches_before_drafts_ && under_way.all_draft);
}

Drafting::Trees Drafting::plan(const DraftRoom& room, Sequences& sequences, const Launched* under_way) {
  Trees trees;
  std::vector<DraftRoom::Quota*> quotas;
  std::vector<speculative::Speculator::Choice> proposed;
  for (DraftRoom::Quota& quota : room.quotas) {
    if (quota.follows) {
      quota.num_drafts = std::min(quota.most, under_way->num_to_draft);
      trees.emplace(quota.request, sequences.at(quota.request).unknown_chain(quota.num_drafts));
      continue;
    }
    const auto track = tracks_.find(quota.request);
    if (track == tracks_.end()) continue;  // no token of the answer is known yet
    quotas.push_back(&quota);
    proposed.push_back({.track = track->second.get(), .most = quota.most});
  }
  speculator_->choose(room.num_rows, room.num_sequences, room.num_rows_left, proposed);
  for (size_t i = 0; i < quotas.size(); ++i) {
    if (proposed[i].tokens.empty()) continue;
    DraftTree tree =
        sequences.at(quotas[i]->request).tree_along(proposed[i].tokens, proposed[i].parents, quotas[i]->most);
    quotas[i]->num_drafts = static_cast<int>(tree.drafts.size());
    trees.emplace(quotas[i]->request, std::move(tree));
  }
  return trees;
}

StepBatch::Head Drafting::head() const {
  return speculator_ ? StepBatch::Head{speculator_->has_head(), speculator_->topk()} : StepBatch::Head{};
}

void Drafting::add_tokens(RequestId id, const Sequence& sequence, size_t num_known, const Drafts& made) {
  if (!speculator_) return;
  auto& track = tracks_[id];
  if (!track) track = speculator_->start(sequence.prompt(), sequence.prediction(), sequence.cache_salt());
  // The drafts in `made` begin at position made.first_position. Forced tokens may stand before, at and after
  // this position, so the drafters get tokens and drafts in the order of positions.
  int position = static_cast<int>(num_known);
  for (const TokenId token : sequence.tokens().subspan(num_known)) {
    if (position++ == made.first_position) speculator_->take(*track, made);
    speculator_->push(*track, token);
  }
  if (position == made.first_position) speculator_->take(*track, made);
}

void Drafting::fill_in(RequestId id, const Drafts& made, Launched& next) {
  for (size_t i = 0; i < next.slices.size(); ++i)
    if (next.slices[i].request == id && next.slices[i].follows && next.slices[i].num_drafts > 0)
      for (size_t n = 0; n < next.trees[i].drafts.size(); ++n)
        next.trees[i].drafts[n] = made.tokens.at(n).token;
}

void Drafting::keep_answer(const Sequence& sequence) {
  if (!speculator_) return;
  try {
    speculator_->finish(sequence.output(), sequence.cache_salt());
  } catch (const std::bad_alloc&) {  // if memory runs out, later drafts do without this answer
  }
}

speculative::DraftModel::CatchUp Drafting::draft(const Launched& step) {
  if (!speculator_ || step.num_to_draft == 0) return {};
  std::vector<speculative::Track*> texts;
  for (const Slice& slice : step.slices)
    if (const auto track = tracks_.find(slice.request); slice.gives_token && track != tracks_.end())
      texts.push_back(track->second.get());
  return speculator_->make_drafts(texts, step.num_to_draft);
}

void Drafting::learn(const Ended& ended) {
  if (!speculator_ || ended.step.slices.empty()) return;
  const StepReport& report = ended.report;
  speculative::StepMeasure measure{.num_sequences = report.num_sequences,
                                   .num_more_rows = report.num_tokens - report.num_sequences,
                                   .num_tokens = ended.num_tokens,
                                   .seconds = report.backend_seconds + report.other_seconds -
                                              ended.catch_up.prompt_seconds - ended.catch_up.answer_seconds,
                                   .has_chain = ended.step.num_to_draft > 0,
                                   .catch_up_seconds = ended.catch_up.answer_seconds};
  for (const Slice& slice : ended.step.slices) measure.num_drafts += slice.num_drafts;
  if (!ended.step.has_prompt) speculator_->add(measure);
  if (ended.next && !launches_before_drafts_) consider(*ended.next);
}

// Checks whether drafts would have paid off in `next`, which was just launched without drafts. If so, the
// step after `next` is launched only when its drafts can be made.
void Drafting::consider(const Launched& next) {
  std::vector<speculative::Speculator::Choice> proposed;
  int num_rows = 0;
  for (const Slice& slice : next.slices) {
    num_rows += slice.num_tokens;
    if (const auto track = tracks_.find(slice.request); track != tracks_.end())
      proposed.push_back({.track = track->second.get(), .most = speculative::kMaxDrafts});
  }
  speculator_->consider(num_rows, static_cast<int>(next.slices.size()), max_batch_tokens_ - num_rows,
                        proposed);
}

}  // namespace nibble
