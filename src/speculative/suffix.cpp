#include "speculative/suffix.h"

#include <algorithm>
#include <utility>

namespace nibble::speculative {
namespace {

constexpr TokenId kEndOfAnswer{-1};  // between two answers; it matches no token
constexpr int kSuffixPlaces{16};     // that are looked at in each index
constexpr int kSuffixMatch{64};
// A proposal goes on while what it consists of was what followed in this share of the places (as in ArcticInference).
constexpr double kMinShare{0.1};

// A place where the end of the sequence occurred before.
struct Occurrence {
  std::span<const TokenId> rest;  // the text behind it
  int num_matched;
  // The text that goes on behind its end as it began: the sequence's own.
  bool repeats;
  TokenId at(size_t i) const {
    if (i < rest.size()) return rest[i];
    return repeats && !rest.empty() ? rest[i % rest.size()] : kEndOfAnswer;
  }
};

void add_places(const TextIndex& index, std::span<const TokenId> context, bool is_own,
                std::vector<Occurrence>& places) {
  int place = index.latest(context);
  if (is_own && place > 0) place = index.before(place);  // the latest is the context's own end
  for (int n = 0; place > 0 && n < kSuffixPlaces; ++n, place = index.before(place)) {
    const int num_matched = index.num_matched(context, place, kSuffixMatch);
    if (num_matched >= index.order())
      places.push_back({index.tokens().subspan(static_cast<size_t>(place)), num_matched, is_own});
  }
}

}  // namespace

void FinishedTexts::add(std::span<const TokenId> answer) {
  answer = answer.first(std::min(answer.size(), max_half_));
  if (newer_->tokens().size() + answer.size() + 1 > max_half_)
    older_ = std::exchange(newer_, std::make_unique<IndexedText>());
  for (const TokenId token : answer) newer_->push(token);
  newer_->push(kEndOfAnswer);
}

Proposal SuffixDrafter::propose(int most) {
  const std::span<const TokenId> context = text_.tokens();
  std::vector<Occurrence> places;
  for (const auto runs : {&IndexedText::of_long_runs, &IndexedText::of_short_runs}) {
    add_places((text_.*runs)(), context, true, places);
    add_places((finished_->newer().*runs)(), context, false, places);
    add_places((finished_->older().*runs)(), context, false, places);
    if (!places.empty()) break;
  }
  Proposal proposal;
  for (const Occurrence& place : places)
    proposal.num_matched = std::max(proposal.num_matched, place.num_matched);
  // A place with a longer match says more. A proposal is no longer than twice what matched.
  const auto weight = [](const Occurrence& place) { return place.num_matched * place.num_matched; };
  const int end = std::min(most, 2 * proposal.num_matched);
  double chance = 1;
  for (int i = 0; i < end; ++i) {
    std::vector<std::pair<TokenId, int>> votes;  // few
    int sum = 0;
    for (const Occurrence& place : places) {
      const TokenId token = place.at(static_cast<size_t>(i));
      sum += weight(place);
      const auto vote =
          std::find_if(votes.begin(), votes.end(), [&](const auto& v) { return v.first == token; });
      if (vote != votes.end())
        vote->second += weight(place);
      else
        votes.emplace_back(token, weight(place));
    }
    const auto best = std::max_element(votes.begin(), votes.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == votes.end() || best->first == kEndOfAnswer) break;
    chance *= static_cast<double>(best->second) / sum;
    if (chance < kMinShare) break;
    proposal.tokens.push_back(best->first);
    std::erase_if(places,
                  [&](const Occurrence& place) { return place.at(static_cast<size_t>(i)) != best->first; });
  }
  return proposal;
}

}  // namespace nibble::speculative
