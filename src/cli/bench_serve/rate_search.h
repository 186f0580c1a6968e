// Finds the highest rate of requests at which a server holds an SLO.
#pragma once

#include <functional>
#include <optional>

namespace nibble::cli {

struct RateBounds {
  std::optional<double> holds;  // highest rate at which the SLO held; nullopt: it never held
  std::optional<double> fails;  // lowest rate at which the SLO failed; nullopt: it never failed
};

// Rates in requests per second. The search starts at `start`, doubles or halves until it has one rate at
// which the SLO holds and one at which it fails, then halves the interval on a logarithmic scale until the
// two differ by less than the factor `precision`. It assumes that the SLO also holds at all lower rates.
struct RateSearch {
  double start{1}, lowest{1.0 / 64}, highest{4096};
  double precision{1.05};
};
RateBounds highest_rate(const std::function<bool(double)>& holds, const RateSearch& search = {});

}  // namespace nibble::cli
