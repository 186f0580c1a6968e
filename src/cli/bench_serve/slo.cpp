#include "cli/bench_serve/slo.h"

#include <algorithm>
#include <charconv>

#include "core/errors/error.h"
#include "core/text/take_until.h"

namespace nibble::cli {

bool Slo::is_met_by(const TimedAnswer& answer) const {
  if (!answer.error.empty()) return false;
  const AnswerTimes times = times_of(answer);
  // If no token was visible, the time to the end of the answer is an upper bound of the time to first token.
  const std::map<std::string, double> actual{
      {"ttft", times.ttft.value_or(times.e2e)}, {"tpot", times.tpot.value_or(0)}, {"e2e", times.e2e}};
  return std::ranges::all_of(limits,
                             [&](const auto& limit) { return actual.at(limit.first) <= limit.second; });
}

Slo read_slo(std::string_view text, std::string_view origin) {
  Slo slo;
  bool has_more = true;
  for (std::string_view rest = text; has_more;) {
    has_more = rest.find(',') != std::string_view::npos;
    std::string_view number = take_until(rest, ',');
    const std::string name(take_until(number, '='));
    double seconds = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), seconds);
    const bool is_known = name == "ttft" || name == "tpot" || name == "e2e";
    if (!is_known || error != std::errc{} || stop != number.data() + number.size() || !(seconds > 0) ||
        !slo.limits.emplace(name, seconds).second)
      throw InputError(
          "{} '{}': expected limits in seconds on ttft, tpot or e2e, each at most once, such as "
          "ttft=3,tpot=0.08",
          origin, text);
  }
  return slo;
}

double share_within(const Slo& slo, std::span<const TimedAnswer> answers) {
  const auto met = std::ranges::count_if(answers, [&](const auto& answer) { return slo.is_met_by(answer); });
  return static_cast<double>(met) / static_cast<double>(answers.size());
}

}  // namespace nibble::cli
