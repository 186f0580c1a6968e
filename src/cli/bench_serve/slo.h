// Service-level objectives: limits on the times of a request, and the share of requests within them.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "cli/bench_serve/latency.h"

namespace nibble::cli {

struct Slo {
  std::map<std::string, double> limits;  // seconds, by the time's name: ttft, tpot, e2e

  // A failed answer does not meet the SLO. An answer of one token has no TPOT and meets any limit on TPOT.
  bool is_met_by(const TimedAnswer& answer) const;
};
// Parses "ttft=3,tpot=0.08". Throws InputError; `origin` is the flag.
Slo read_slo(std::string_view text, std::string_view origin);

double share_within(const Slo& slo, std::span<const TimedAnswer> answers);  // needs at least one answer

// Share of requests that must meet the SLO in a load that holds it ("at p99").
inline constexpr double kHoldingShare{0.99};

}  // namespace nibble::cli
