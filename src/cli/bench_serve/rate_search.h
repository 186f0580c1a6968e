// Finds the highest rate of requests at which a server holds an SLO.
#pragma once

#include <functional>
#include <optional>

namespace nibble::cli {

struct RateBounds {
  std::optional<double> holds;  // highest rate that held; nullopt: not even the lowest rate did
  std::optional<double> fails;  // lowest rate that did not; nullopt: all rates held
};

// Rates in requests per second. The search starts at `start`, doubles or halves until it has one rate that
// holds and one that does not, then halves the interval on a logarithmic scale until the two differ by less
// than the factor `precision`. It assumes that every rate below one that holds also holds.
struct RateSearch {
  double start{1}, lowest{1.0 / 64}, highest{4096};
  double precision{1.05};
};
RateBounds highest_rate(const std::function<bool(double)>& holds, const RateSearch& search = {});

}  // namespace nibble::cli
