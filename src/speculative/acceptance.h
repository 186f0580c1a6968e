// Estimates how likely a draft is accepted, by its place in the proposal: an exponentially weighted share.
#pragma once

#include <array>
#include <cstddef>

namespace nibble::speculative {

class Acceptance {
 public:
  // Each new sample multiplies the weight of the earlier ones by `kept`.
  explicit Acceptance(double kept) : kept_(kept) {}

  // Counts the draft at `place`, all of whose predecessors were accepted, as accepted or rejected.
  void add(int place, bool is_right);
  // Probability that the draft at `place` is accepted if the earlier drafts are. `prior` weighs like
  // `prior_weight` samples: it dominates until more samples are added.
  double chance(int place, double prior, double prior_weight) const;

 private:
  // The last tally covers all further places.
  static constexpr size_t kNumPlaces{8};
  struct Tally {
    double num_right{0}, num{0};
  };
  static size_t index_of(int place);

  double kept_;
  std::array<Tally, kNumPlaces> tallies_{};
};

}  // namespace nibble::speculative
