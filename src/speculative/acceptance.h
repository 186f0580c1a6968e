// Estimates how likely a draft is accepted, by its place in the proposal, from a decaying average.
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
  // Probability that draft `place` is accepted if earlier ones are. `prior` counts as `prior_weight` samples.
  double chance(int place, double prior, double prior_weight) const;

 private:
  static constexpr size_t kNumPlaces{8};  // the last tally covers all further places
  struct Tally {
    double num_right{0}, num{0};
  };
  static size_t index_of(int place);

  double kept_;
  std::array<Tally, kNumPlaces> tallies_{};
};

}  // namespace nibble::speculative
