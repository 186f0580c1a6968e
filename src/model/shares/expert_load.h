// The work that a step gives to ranks each of which has some experts as a whole (model/shares/share.h), as independent uniform routing makes one
// expect it: each token chooses K of all, every set of them as likely. Real routing is less even.
#pragma once

#include <span>

namespace nibble {

struct ExpertLoad {
  double hit{0};    // different experts, whose weights are read
  double pairs{0};  // of a token and an expert: products
};

// In a layer, of the rank that has most, for which the others wait. The largest number that are hit is exact. That of pairs is the largest of as
// many normal variables with the mean, the variance and the covariance of the ranks' pairs, where each rank has as many experts as the largest:
// within 3 % of simulated, and 1 % from 64 tokens on. One rank may have most experts hit and another one most pairs: taking both
// for one is the worst case.
ExpertLoad largest_load(std::span<const int> experts_of_ranks, int experts_per_token, int num_tokens);

}  // namespace nibble
