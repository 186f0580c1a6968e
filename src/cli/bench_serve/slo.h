// Service-level objectives: limits on the times of a request, and the share of requests within them.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "cli/bench_serve/latency.h"

namespace nibble::cli {

struct Slo {
  std::map<std::string, double> limits;  // ["ttft", "tpot" or "e2e"], in seconds

  // A failed answer does not meet the SLO. An answer of one token has no TPOT and meets any limit on TPOT.
  bool is_met_by(const TimedAnswer& answer) const;
};
// Parses "ttft=3,tpot=0.08". Throws InputError; `origin` is the flag.
Slo read_slo(std::string_view text, std::string_view origin);

double share_within(const Slo& slo, std::span<const TimedAnswer> answers);  // needs at least one answer

// The SLO holds in a load if at least this share of the requests meets it. Reports call this "at p99".
inline constexpr double kHoldingShare{0.99};

}  // namespace nibble::cli
