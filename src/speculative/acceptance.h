// Counts how likely a draft is right, by its place in the proposal: the share of those that were, of which older ones count less.
#pragma once

#include <array>
#include <cstddef>

namespace nibble::speculative {

class Acceptance {
 public:
  // Each new count leaves the share `kept` of the earlier ones.
  explicit Acceptance(double kept) : kept_(kept) {}

  // The token at `place`, whose predecessors were right, was right or wrong.
  void add(int place, bool is_right);
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
