// The largest load of a step if ranks have whole experts (model/shares/share.h), with independent uniform
// routing: each token chooses K of all experts, every set with the same probability. Real routing is less
// even.
#pragma once

#include <span>

namespace nibble {

struct ExpertLoad {
  double hit{0};    // distinct experts whose weights are read
  double pairs{0};  // (token, expert) pairs: the number of products
};

// Returns the expected load per layer of the rank with the largest load, for which the others wait. `hit` is
// the exact expectation of the largest number. `pairs` approximates the pairs of each rank by a normal
// variable with their mean, variance and covariance, as if each rank had the same number of experts as the
// largest rank. It is within 3 % of simulations, and within 1 % from 64 tokens on. One rank may have the most
// experts hit and another the most pairs; taking both maxima for one rank is the worst case.
ExpertLoad largest_load(std::span<const int> experts_of_ranks, int experts_per_token, int num_tokens);

}  // namespace nibble
