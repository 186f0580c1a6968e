#include "model/shares/expert_load.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace nibble {
namespace {

double log_choose(int n, int k) {
  return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0);
}

// Returns the hypergeometric probability that `drawn` of `total` items contain exactly `found` of the
// `marked` ones.
double chance(int found, int total, int marked, int drawn) {
  if (found > marked || drawn - found > total - marked || found > drawn) return 0;
  return std::exp(log_choose(marked, found) + log_choose(total - marked, drawn - found) -
                  log_choose(total, drawn));
}

// Returns the probability of each number of distinct experts, 0 to E, that the tokens choose together.
std::vector<double> chances_of_hits(int num_experts, int experts_per_token, int num_tokens) {
  const int K = experts_per_token;
  std::vector<double> chances(static_cast<size_t>(num_experts) + 1), next;
  // steps[hit * (K + 1) + more]: probability that `more` of a token's K experts are new after `hit` were hit.
  std::vector<double> steps(chances.size() * static_cast<size_t>(K + 1));
  for (int hit = 0; hit <= num_experts; ++hit)
    for (int more = 0; more <= K; ++more)
      steps[static_cast<size_t>(hit * (K + 1) + more)] = chance(more, num_experts, num_experts - hit, K);
  chances[0] = 1;
  for (int token = 0; token < num_tokens && chances.back() < 1 - 1e-12; ++token) {
    next.assign(chances.size(), 0);
    for (int hit = 0; hit <= num_experts; ++hit)
      for (int more = 0; more <= std::min(K, num_experts - hit); ++more)
        next[static_cast<size_t>(hit + more)] +=
            chances[static_cast<size_t>(hit)] * steps[static_cast<size_t>(hit * (K + 1) + more)];
    chances.swap(next);
  }
  return chances;
}

// Returns the expected maximum over ranks of the number of hit experts, if the hit experts are a random
// subset of all experts.
double largest_number_hit(std::span<const int> experts_of_ranks, std::span<const double> chances_of_hits) {
  const int num_experts = std::reduce(experts_of_ranks.begin(), experts_of_ranks.end());
  const int largest = *std::ranges::max_element(experts_of_ranks);
  // of_rank[rank][hit * (largest + 1) + own]: probability that `own` experts of this rank are hit, if `hit`
  // experts are hit on this rank and all later ranks together.
  std::vector<std::vector<double>> of_rank;
  int left = num_experts;
  for (const int count : experts_of_ranks) {
    auto& table = of_rank.emplace_back(static_cast<size_t>((left + 1) * (largest + 1)));
    for (int hit = 0; hit <= left; ++hit)
      for (int own = 0; own <= std::min(hit, count); ++own)
        table[static_cast<size_t>(hit * (largest + 1) + own)] = chance(own, left, count, hit);
    left -= count;
  }
  double expected = 0;
  for (int most = 0; most < largest; ++most) {
    // within[hit]: probability that no rank from `rank` on has more than `most` hit experts, if `hit` experts
    // are hit on these ranks together.
    std::vector<double> within{1}, before;
    left = 0;
    for (size_t rank = experts_of_ranks.size(); rank-- > 0;) {
      const int behind = left;
      left += experts_of_ranks[rank];
      before.assign(static_cast<size_t>(left) + 1, 0);
      for (int hit = 0; hit <= left; ++hit)
        for (int own = std::max(0, hit - behind); own <= std::min(hit, most); ++own)
          before[static_cast<size_t>(hit)] += of_rank[rank][static_cast<size_t>(hit * (largest + 1) + own)] *
                                              within[static_cast<size_t>(hit - own)];
      within.swap(before);
    }
    for (size_t hit = 0; hit < within.size(); ++hit) expected += chances_of_hits[hit] * (1 - within[hit]);
  }
  return expected;
}

// Returns the expected maximum of `count` independent standard normal variables: the integral of x
// d(Phi(x)^count).
double largest_normal(int count) {
  constexpr double kStep{1e-3}, kEnd{8};
  const auto below = [&](double x) { return std::pow(std::erfc(-x / std::sqrt(2.0)) / 2, count); };
  double sum = 0;
  for (double x = -kEnd; x < kEnd; x += kStep) sum += (x + kStep / 2) * (below(x + kStep) - below(x));
  return sum;
}

}  // namespace

ExpertLoad largest_load(std::span<const int> experts_of_ranks, int experts_per_token, int num_tokens) {
  const int E = std::reduce(experts_of_ranks.begin(), experts_of_ranks.end());
  const auto num_ranks = static_cast<int>(experts_of_ranks.size());
  const std::vector<double> chances = chances_of_hits(E, experts_per_token, num_tokens);
  const double largest = *std::ranges::max_element(experts_of_ranks);
  const double share = largest / E, pairs = double{1} * experts_per_token * num_tokens;
  // A token's experts are drawn without replacement: the more experts one of N ranks gets, the fewer are left
  // for the others. So ranks differ as if they were independent, with a variance larger by N / (N - 1).
  double spread = 0;
  if (num_ranks > 1 && E > 1)
    spread = std::sqrt(pairs * share * (1 - share) * (E - experts_per_token) / (E - 1) * num_ranks /
                       (num_ranks - 1));
  const double hit = largest_number_hit(experts_of_ranks, chances);
  return {hit, std::max(hit, pairs * share + spread * largest_normal(num_ranks))};
}

}  // namespace nibble
