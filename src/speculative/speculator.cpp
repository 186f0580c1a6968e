#include "speculative/speculator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/errors/check.h"

namespace nibble::speculative {
namespace {

// Decay factors of acceptance counts: for one sequence (follows changes quickly), and for all sequences.
constexpr double kKeptOfOne{0.8}, kKeptOfAll{0.995};
// Estimates of acceptance start from the probability kFirstChance with a weight of kFirstWeight samples.
// kWeightOfAll: weight, in samples, of the counts of all sequences in the estimate for one sequence.
constexpr double kFirstChance{0.3}, kFirstWeight{2}, kWeightOfAll{4};
// The counts of one sequence cover about five drafts, so they are often randomly below those of all
// sequences. If each such case paused drafting, drafts that should gain 5 % would lose half of the gain. So a
// difference below this share of a draft's variance p(1-p) is ignored. At p = 0.5 that is 1.6 standard
// deviations of the estimate. A larger difference counts, because sequences differ and because a sequence's
// drafts can be wrong for a short time. Counts above those of all sequences are always used: ignoring them
// lost two thirds of the gain of drafts that are right for 50 tokens, then wrong for 50.
constexpr double kTakenForChance{0.6};
constexpr int kMostStepsToWait{8};

Chain chain_of(const SpeculationOptions& options) {
  if (options.model.backend) return Chain::kModel;
  return options.draft_head.empty() ? Chain::kNone : Chain::kHead;
}

std::unique_ptr<DraftModel> draft_model_of(const SpeculationOptions& options) {
  if (!options.model.backend) return nullptr;
  DraftModelOptions model = options.model;
  model.topk = options.topk;
  return std::make_unique<DraftModel>(model);
}

std::array<Acceptance, 3> all_kinds(double kept) {
  return {Acceptance(kept), Acceptance(kept), Acceptance(kept)};
}

double chance_of_one(const Acceptance& own, int place, double of_all) {
  const double chance = own.chance(place, of_all, kWeightOfAll);
  const bool is_by_chance = of_all - chance < kTakenForChance * of_all * (1 - of_all);
  return is_by_chance ? std::max(chance, of_all) : chance;
}

// Sorts tokens by descending chance. A token stays after its parent, whose chance is not lower.
void sort_by_chance(Proposal& proposal, DraftOffer& offer) {
  const Proposal before = proposal;
  const std::vector<double> chances = offer.chances;
  std::vector<size_t> order(chances.size()), place_of(chances.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return chances[a] > chances[b]; });
  std::vector<int> depths;
  int deepest = 0;
  proposal.parents.resize(order.size());
  for (size_t n = 0; n < order.size(); ++n) {
    place_of[order[n]] = n;
    const int parent = parent_of(before.parents, order[n]);
    const int place = parent < 0 ? -1 : static_cast<int>(place_of[static_cast<size_t>(parent)]);
    proposal.tokens[n] = before.tokens[order[n]];
    proposal.parents[n] = place;
    offer.chances[n] = chances[order[n]];
    depths.push_back(place < 0 ? 1 : depths[static_cast<size_t>(place)] + 1);
    deepest = std::max(deepest, depths.back());
    offer.depths.push_back(deepest);
  }
}

}  // namespace

size_t Track::kind_of(const Proposal& proposal, double probability) {
  const auto of = [](auto value, auto middle, auto high) {
    return value < middle ? 0u : value < high ? 1u : 2u;
  };
  return proposal.probabilities.empty() ? of(proposal.num_matched, 6, 16)
                                        : of(static_cast<float>(probability), 0.4f, 0.8f);
}

std::vector<size_t> Track::kinds_of(const Proposal& proposal) {
  std::vector<size_t> kinds;
  // left[i + 1]: probability that is left for further children of token i, which is 1 minus the probabilities
  // of its children handled so far. left[0]: the same for tokens that directly follow the text.
  std::vector<double> left(proposal.tokens.size() + 1, 1);
  for (size_t i = 0; i < proposal.tokens.size(); ++i) {
    const double probability = proposal.probabilities.empty() ? 0 : double{proposal.probabilities[i]};
    double& rest = left[static_cast<size_t>(parent_of(proposal.parents, i) + 1)];
    kinds.push_back(kind_of(proposal, probability / rest));
    rest = std::max(1e-6, rest - probability);
  }
  return kinds;
}

Speculator::Speculator(const SpeculationOptions& options)
    : options_(options),
      model_(draft_model_of(options)),
      controller_(chain_of(options)),
      acceptance_(options.drafters.size(), all_kinds(kKeptOfAll)),
      acceptance_of_others_(acceptance_),
      is_drafting_(!options.by_cost),
      has_head_alone_(!options.by_cost && options.topk == 1 && has_head() &&
                      start({}, nullptr)->lines_.size() == 1) {
  NIBBLE_CHECK(options_.max_drafts > 0 && options_.max_drafts <= kMaxDrafts && options_.topk > 0 &&
                   options_.topk <= kMaxTopk,
               "{} drafts, {} per position", options_.max_drafts, options_.topk);
}

std::unique_ptr<Track> Speculator::start(std::span<const TokenId> prompt, const Prediction* prediction,
                                         std::string_view cache_salt) {
  auto track = std::make_unique<Track>();
  track->finished_ = finished_.of(cache_salt);
  for (size_t i = 0; i < options_.drafters.size(); ++i) {
    auto drafter = options_.drafters[i]({.prediction = prediction,
                                         .ngram = options_.ngram,
                                         .finished = track->finished_.get(),
                                         .model = model_.get(),
                                         .topk = options_.topk,
                                         .cache_salt = cache_salt});
    if (!drafter) continue;
    drafter->push(prompt);
    track->lines_.push_back({.index = i, .drafter = std::move(drafter), .acceptance = all_kinds(kKeptOfOne)});
  }
  return track;
}

void Speculator::push(Track& track, TokenId token) {
  for (Track::Line& line : track.lines_) {
    line.drafter->push({&token, 1});
    const Proposal& watched = line.watched;
    if (watched.tokens.empty()) continue;
    const std::vector<size_t> kinds = Track::kinds_of(watched);
    const int parent = line.last_right;
    bool is_first = true, is_right = false;
    for (size_t i = 0; i < watched.tokens.size() && !is_right; ++i) {
      if (parent_of(watched.parents, i) != parent) continue;
      is_right = watched.tokens[i] == token;
      if (std::exchange(is_first, false)) {
        line.acceptance[kinds[i]].add(line.num_right, is_right);
        acceptance_[line.index][kinds[i]].add(line.num_right, is_right);
      } else {
        acceptance_of_others_[line.index][kinds[i]].add(0, is_right);
      }
      if (is_right) line.last_right = static_cast<int>(i);
    }
    line.num_right += is_right;
    const auto is_behind_it = [&](size_t i) { return parent_of(watched.parents, i) == line.last_right; };
    bool goes_on = false;
    for (size_t i = 0; i < watched.tokens.size() && is_right; ++i) goes_on |= is_behind_it(i);
    if (goes_on) continue;
    // While the sequence's drafts are verified, wrong drafts cause no pause, because on average such drafts
    // pay off. With pauses, every sixth step had no drafts. That lost 2 % of the tokens per second at an
    // acceptance of 0.8, and 25 % at an acceptance of 0.5 with rows that take almost no time.
    line.num_misses = line.num_right > 0 || track.has_drafts_ ? 0 : line.num_misses + 1;
    line.num_steps_to_wait = std::min(1 << std::min(line.num_misses, 8), kMostStepsToWait) - 1;
    line.watched = {};
    line.last_right = -1;
    line.num_right = 0;
  }
}

void Speculator::take(Track& track, const Drafts& drafts) {
  for (Track::Line& line : track.lines_) line.drafter->take(drafts);
}

// Returns for each token the probability that the token and all its ancestors are accepted.
std::vector<double> Speculator::chances_of(const Track::Line& line, const Proposal& proposal) const {
  const std::vector<size_t> kinds = Track::kinds_of(proposal);
  std::vector<double> chances;
  std::vector<int> depths;
  // left[i + 1]: probability that token i is accepted, but none of its children handled so far. left[0]:
  // the same for the text, which is always accepted.
  std::vector<double> left(proposal.tokens.size() + 1, -1);
  left[0] = 1;
  std::vector<bool> has_first(left.size());
  for (size_t i = 0; i < proposal.tokens.size(); ++i) {
    const int parent = parent_of(proposal.parents, i);
    const auto behind = static_cast<size_t>(parent + 1);
    depths.push_back(parent < 0 ? 0 : depths[static_cast<size_t>(parent)] + 1);
    const double of_all =
        has_first[behind] ? acceptance_of_others_[line.index][kinds[i]].chance(0, kFirstChance, kFirstWeight)
                          : acceptance_[line.index][kinds[i]].chance(depths[i], kFirstChance, kFirstWeight);
    const double chance =
        has_first[behind] ? of_all : chance_of_one(line.acceptance[kinds[i]], depths[i], of_all);
    has_first[behind] = true;
    chances.push_back(left[behind] * chance);
    left[behind] *= 1 - chance;
    left[i + 1] = chances[i];
  }
  return chances;
}

// Returns the proposal with the largest expected number of accepted tokens.
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
    std::vector<double> chances = chances_of(line, proposal);
    const double sum = std::accumulate(chances.begin(), chances.end(), 0.0);
    if (line.watched.tokens.empty()) line.watched = proposal;
    if (sum <= best_sum) continue;
    best_sum = sum;
    best = {std::move(proposal), {.chances = std::move(chances)}};
    if (!options_.by_cost) break;
  }
  if (options_.by_cost) sort_by_chance(best.proposal, best.offer);
  return best;
}

void Speculator::choose(int num_rows, int num_sequences, int num_rows_left, std::span<Choice> choices) {
  std::vector<DraftOffer> offers(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    Best best = best_of(*choices[i].track, std::min(choices[i].most, options_.max_drafts));
    choices[i].tokens = std::move(best.proposal.tokens);
    choices[i].parents = std::move(best.proposal.parents);
    offers[i] = std::move(best.offer);
  }
  if (!options_.by_cost) return;
  // A step with prompts verifies no drafts, because the cost of such steps is not measured.
  if (num_rows > num_sequences) {
    is_drafting_ = false;
    for (Choice& choice : choices) {
      choice.tokens.clear();
      choice.track->has_drafts_ = false;
    }
    controller_.pass();
    return;
  }
  controller_.choose(num_sequences, num_rows_left, offers);
  is_drafting_ = controller_.num_to_draft() > 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    choices[i].tokens.resize(static_cast<size_t>(offers[i].num_taken));
    if (!choices[i].parents.empty()) choices[i].parents.resize(choices[i].tokens.size());
    choices[i].track->has_drafts_ = offers[i].num_taken > 0;
    is_drafting_ |= offers[i].num_taken > 0;
  }
}

// The step was already launched without drafts. So if the controller chooses drafts for it, the controller's
// state is restored.
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
