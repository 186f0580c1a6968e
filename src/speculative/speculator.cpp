#include "speculative/speculator.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace nibble::speculative {
namespace {

// Shares that remain of a sequence's own counts, which so follow a change in it soon, and of the counts of all sequences.
constexpr double kKeptOfOne{0.8}, kKeptOfAll{0.995};
// Before anything was counted a draft is believed so much; and the counts of all weigh so much among a sequence's own.
constexpr double kFirstChance{0.3}, kFirstWeight{2}, kWeightOfAll{4};
constexpr int kMostStepsToWait{8};

Chain chain_of(const SpeculationOptions& options) {
  if (options.model.backend) return Chain::kModel;
  return options.draft_head.empty() ? Chain::kNone : Chain::kHead;
}

std::array<Acceptance, 3> all_kinds(double kept) {
  return {Acceptance(kept), Acceptance(kept), Acceptance(kept)};
}

}  // namespace

size_t Track::kind_of(const Proposal& proposal, size_t place) {
  const auto of = [](auto value, auto middle, auto high) {
    return value < middle ? 0u : value < high ? 1u : 2u;
  };
  return proposal.probabilities.empty() ? of(proposal.num_matched, 6, 16)
                                        : of(proposal.probabilities[place], 0.4f, 0.8f);
}

Speculator::Speculator(const SpeculationOptions& options)
    : options_(options),
      model_(options.model.backend ? std::make_unique<DraftModel>(options.model) : nullptr),
      controller_(chain_of(options)),
      acceptance_(options.drafters.size(), all_kinds(kKeptOfAll)),
      is_drafting_(!options.by_cost) {
  NIBBLE_CHECK(options_.max_drafts > 0 && options_.max_drafts <= kMaxDrafts, "{} drafts",
               options_.max_drafts);
}

std::unique_ptr<Track> Speculator::start(std::span<const TokenId> prompt,
                                         const Prediction* prediction) const {
  auto track = std::make_unique<Track>();
  for (size_t i = 0; i < options_.drafters.size(); ++i) {
    auto drafter = options_.drafters[i](
        {.prediction = prediction, .ngram = options_.ngram, .finished = &finished_, .model = model_.get()});
    if (!drafter) continue;
    drafter->push(prompt);
    track->lines_.push_back({.index = i, .drafter = std::move(drafter), .acceptance = all_kinds(kKeptOfOne)});
  }
  return track;
}

void Speculator::push(Track& track, TokenId token) {
  for (Track::Line& line : track.lines_) {
    line.drafter->push({&token, 1});
    const std::vector<TokenId>& watched = line.watched.tokens;
    if (watched.empty()) continue;
    const bool is_right = watched[line.num_right] == token;
    const size_t kind = Track::kind_of(line.watched, line.num_right);
    line.acceptance[kind].add(static_cast<int>(line.num_right), is_right);
    acceptance_[line.index][kind].add(static_cast<int>(line.num_right), is_right);
    line.num_right += is_right;
    if (is_right && line.num_right < watched.size()) continue;
    line.num_misses = line.num_right > 0 ? 0 : line.num_misses + 1;
    line.num_steps_to_wait = std::min(1 << std::min(line.num_misses, 8), kMostStepsToWait) - 1;
    line.watched = {};
    line.num_right = 0;
  }
}

void Speculator::take(Track& track, std::span<const Draft> drafts) {
  for (Track::Line& line : track.lines_) line.drafter->take(drafts);
}

// The proposal of the drafter that is expected to be right the longest.
Speculator::Best Speculator::best_of(Track& track, int most) {
  Best best;
  double best_sum = 0;
  for (Track::Line& line : track.lines_) {
    if (options_.by_cost && line.num_steps_to_wait > 0 && !line.drafter->has_made_drafts()) {
      --line.num_steps_to_wait;
      continue;
    }
    Proposal proposal = line.drafter->propose(most);
    if (proposal.tokens.empty()) continue;
    std::vector<double> chances;
    double chance = 1, sum = 0;
    for (int place = 0; place < static_cast<int>(proposal.tokens.size()); ++place) {
      const size_t kind = Track::kind_of(proposal, static_cast<size_t>(place));
      const double of_all = acceptance_[line.index][kind].chance(place, kFirstChance, kFirstWeight);
      chance *= line.acceptance[kind].chance(place, of_all, kWeightOfAll);
      chances.push_back(chance);
      sum += chance;
    }
    if (line.watched.tokens.empty()) line.watched = proposal;
    if (sum <= best_sum) continue;
    best_sum = sum;
    best = {std::move(proposal.tokens), std::move(chances)};
    if (!options_.by_cost) break;
  }
  return best;
}

void Speculator::choose(int num_rows, int num_sequences, int num_rows_left, std::span<Choice> choices) {
  std::vector<DraftOffer> offers(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    Best best = best_of(*choices[i].track, std::min(choices[i].most, options_.max_drafts));
    choices[i].tokens = std::move(best.tokens);
    offers[i].chances = std::move(best.chances);
  }
  if (!options_.by_cost) return;
  // What a step with a prompt costs is not measured, so nobody knows what drafts add to it.
  if (num_rows > num_sequences) {
    is_drafting_ = false;
    for (Choice& choice : choices) choice.tokens.clear();
    controller_.pass();
    return;
  }
  controller_.choose(num_sequences, num_rows_left, offers);
  is_drafting_ = controller_.num_to_draft() > 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    choices[i].tokens.resize(static_cast<size_t>(offers[i].num_taken));
    is_drafting_ |= offers[i].num_taken > 0;
  }
}

// The controller takes note of what it has decided: it would take drafts that are to be made in the next step for made, and find none.
void Speculator::consider(int num_rows, int num_sequences, int num_rows_left, std::span<Choice> choices) {
  const Controller before = controller_;
  choose(num_rows, num_sequences, num_rows_left, choices);
  if (is_drafting_) controller_ = before;
}

int Speculator::num_to_draft() const {
  if (!has_head() && !model_) return 0;
  return options_.by_cost ? controller_.num_to_draft() : std::min(options_.max_drafts, kMaxDraftsOfHead);
}

DraftModel::CatchUp Speculator::make_drafts(std::span<Track* const> tracks, int num_drafts) {
  if (!model_) return {};
  for (Track* track : tracks)
    for (Track::Line& line : track->lines_) line.drafter->want(num_drafts);
  return model_->run();
}

}  // namespace nibble::speculative
