#include "cli/bench_serve/rate_search.h"

#include <cmath>

namespace nibble::cli {

RateBounds highest_rate(const std::function<bool(double)>& holds, const RateSearch& search) {
  RateBounds bounds;
  double rate = search.start;
  while (!bounds.holds || !bounds.fails) {
    if (rate < search.lowest || rate > search.highest) return bounds;
    (holds(rate) ? bounds.holds : bounds.fails) = rate;
    rate *= bounds.fails ? 0.5 : 2;
  }
  while (*bounds.fails > *bounds.holds * search.precision) {
    rate = std::sqrt(*bounds.holds * *bounds.fails);
    (holds(rate) ? bounds.holds : bounds.fails) = rate;
  }
  return bounds;
}

}  // namespace nibble::cli
