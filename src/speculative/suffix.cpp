#include "speculative/suffix.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace nibble::speculative {
namespace {

constexpr TokenId kEndOfAnswer{-1};  // separates answers; equals no token
constexpr int kSuffixPlaces{16};     // maximum number of occurrences compared per index
constexpr int kSuffixMatch{64};
constexpr size_t kMaxSalts{256};  // a salt takes a few kilobytes even without answers
// Tokens with a smaller estimated probability are not proposed. The limit is ArcticInference's.
constexpr double kMinShare{0.1};

struct Occurrence {               // an earlier occurrence of the sequence's last tokens
  std::span<const TokenId> rest;  // the text after the occurrence
  int num_matched;
  bool repeats;  // `rest` is the end of the sequence itself; after its last token, at() starts again
  TokenId at(size_t i) const {
    if (i < rest.size()) return rest[i];
    return repeats && !rest.empty() ? rest[i % rest.size()] : kEndOfAnswer;
  }
};

void add_places(const TextIndex& index, std::span<const TokenId> context, bool is_own,
                std::vector<Occurrence>& places) {
  int place = index.latest(context);
  if (is_own && place > 0) place = index.before(place);  // the latest one is the end of the context itself
  for (int n = 0; place > 0 && n < kSuffixPlaces; ++n, place = index.before(place)) {
    const int num_matched = index.num_matched(context, place, kSuffixMatch);
    if (num_matched >= index.order())
      places.push_back({index.tokens().subspan(static_cast<size_t>(place)), num_matched, is_own});
  }
}

int weight(const Occurrence& place) { return place.num_matched * place.num_matched; }

// Grows a proposal from earlier occurrences of the sequence's last tokens. The likeliest token comes first.
class ProposalTree {
 public:
  ProposalTree(std::vector<Occurrence> places, int topk) : topk_(topk) {
    for (const Occurrence& place : places)
      proposal_.num_matched = std::max(proposal_.num_matched, place.num_matched);
    add_candidates(1, -1, 0, places);
  }

  Proposal grow(int most) && {
    while (!candidates_.empty() && std::ssize(proposal_.tokens) < most) {
      const auto best = std::ranges::max_element(
          candidates_, [](const Candidate& a, const Candidate& b) { return a.chance < b.chance; });
      const Candidate next = std::move(*best);
      candidates_.erase(best);
      proposal_.tokens.push_back(next.token);
      proposal_.parents.push_back(next.parent);
      add_candidates(next.chance, static_cast<int>(proposal_.tokens.size()) - 1, next.depth + 1, next.places);
    }
    return std::move(proposal_);
  }

 private:
  // A token that may follow a proposed token, and the occurrences in which it does.
  struct Candidate {
    double chance;
    int parent, depth;
    TokenId token;
    std::vector<Occurrence> places;
  };
  struct Vote {
    TokenId token;
    int weight;
  };

  // Returns the tokens at this depth after the occurrences, largest weight first.
  static std::vector<Vote> votes_at(int depth, std::span<const Occurrence> places) {
    std::vector<Vote> votes;  // few entries: a linear search is fast
    for (const Occurrence& place : places) {
      const TokenId token = place.at(static_cast<size_t>(depth));
      const auto vote = std::ranges::find(votes, token, &Vote::token);
      if (vote != votes.end())
        vote->weight += weight(place);
      else
        votes.push_back({token, weight(place)});
    }
    std::ranges::stable_sort(votes, [](const Vote& a, const Vote& b) { return a.weight > b.weight; });
    return votes;
  }

  // Adds the likeliest next tokens as candidates. Limits the depth to twice the length of the match.
  void add_candidates(double chance, int parent, int depth, std::span<const Occurrence> places) {
    if (depth == 2 * proposal_.num_matched) return;
    const std::vector<Vote> votes = votes_at(depth, places);
    int sum = 0;
    for (const Vote& vote : votes) sum += vote.weight;
    for (size_t n = 0; n < std::min(votes.size(), static_cast<size_t>(topk_)); ++n) {
      const TokenId token = votes[n].token;
      const double chance_of_it = chance * votes[n].weight / sum;
      if (token == kEndOfAnswer || chance_of_it < kMinShare) continue;
      Candidate& candidate = candidates_.emplace_back(Candidate{chance_of_it, parent, depth, token, {}});
      std::copy_if(places.begin(), places.end(), std::back_inserter(candidate.places),
                   [&](const Occurrence& place) { return place.at(static_cast<size_t>(depth)) == token; });
    }
  }

  const int topk_;
  Proposal proposal_;
  std::vector<Candidate> candidates_;
};

}  // namespace

void FinishedTexts::add(std::span<const TokenId> answer) {
  answer = answer.first(std::min(answer.size(), max_half_));
  if (newer_->tokens().size() + answer.size() + 1 > max_half_)
    older_ = std::exchange(newer_, std::make_unique<IndexedText>());
  for (const TokenId token : answer) newer_->push(token);
  newer_->push(kEndOfAnswer);
}

std::shared_ptr<FinishedTexts> FinishedTextsBySalt::use(std::string_view salt) {
  const auto found = std::ranges::find(by_use_, salt, &Texts::salt);
  if (found != by_use_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, found);
  } else {
    by_use_.push_front({std::string(salt), std::make_shared<FinishedTexts>(max_tokens_)});
    if (by_use_.size() > kMaxSalts) by_use_.pop_back();
  }
  return by_use_.front().texts;
}

void FinishedTextsBySalt::add(std::string_view salt, std::span<const TokenId> answer) {
  use(salt)->add(answer);
  const auto num_tokens = [&] {
    size_t sum = 0;
    for (const Texts& known : by_use_) sum += known.texts->num_tokens();
    return sum;
  };
  while (by_use_.size() > 1 && num_tokens() > max_tokens_) by_use_.pop_back();
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
  return ProposalTree(std::move(places), topk_).grow(most);
}

}  // namespace nibble::speculative
