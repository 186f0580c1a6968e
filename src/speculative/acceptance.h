// Estimates the probability that a draft is accepted, by its place in the proposal. Uses a decaying average.
#pragma once

#include <array>
#include <cstddef>

namespace nibble::speculative {

class Acceptance {
 public:
  // Each new sample multiplies the weight of all earlier samples by `kept`.
  explicit Acceptance(double kept) : kept_(kept) {}

  // Records whether the draft at `place` was accepted. All drafts before it must have been accepted.
  void add(int place, bool is_right);
  // Returns the probability that draft `place` is accepted if all before it are. `prior` counts as
  // prior_weight samples.
  double chance(int place, double prior, double prior_weight) const;

 private:
  static constexpr size_t kNumPlaces{8};  // the last entry counts place 7 and all later places
  struct Tally {
    double num_right{0}, num{0};
  };
  static size_t index_of(int place);

  double kept_;
  std::array<Tally, kNumPlaces> tallies_{};
};

}  // namespace nibble::speculative
