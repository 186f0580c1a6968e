// Counts how likely a draft is right, by its place in the proposal: the share of those that were, of which older ones count less.
#pragma once

#include <array>
#include <cstddef>

namespace nibble::speculative {

class Acceptance {
 public:
  // Each new count leaves the share `kept` of the earlier ones.
  explicit Acceptance(double kept) : kept_(kept) {}

  // A proposal's first `num_right` tokens were right, and the one after them, if there is one, was wrong.
  void add(int num_right, bool has_wrong);
  // The chance that the token at `place` is right, given those before it. Where little was counted, `prior` counts as so much.
  double chance(int place, double prior, double prior_weight) const;

 private:
  // The places behind this many tokens share one count.
  static constexpr size_t kNumPlaces{8};
  struct Place {
    double num_right{0}, num{0};
  };
  static size_t index_of(int place);

  double kept_;
  std::array<Place, kNumPlaces> places_{};
};

}  // namespace nibble::speculative
