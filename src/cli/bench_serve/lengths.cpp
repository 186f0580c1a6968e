#include "cli/bench_serve/lengths.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/errors/error.h"
#include "core/text/take_until.h"

namespace nibble::cli {
namespace {

using Kind = LengthDistribution::Kind;

constexpr int kMostMeans{8};  // exponential and lognormal lengths are clamped to this multiple of the mean
constexpr double kMostSigma{4};

template <typename Number>
std::optional<Number> read_number(std::string_view text, Number least, Number most) {
  Number number{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_good =
      error == std::errc{} && stop == text.data() + text.size() && number >= least && number <= most;
  return is_good ? std::optional(number) : std::nullopt;
}

std::optional<int> read_tokens(std::string_view text) { return read_number(text, 1, kMaxLengthTokens); }

LengthDistribution with_mean(Kind kind, int mean, double sigma) {
  const int most = std::min(mean, kMaxLengthTokens / kMostMeans) * kMostMeans;
  return {kind, 1, most, static_cast<double>(mean), sigma};
}

std::optional<LengthDistribution> parse_length(std::string_view text) {
  constexpr std::string_view kExponential{"exp:"}, kLogNormal{"lognormal:"};
  if (text.starts_with(kExponential)) {
    const auto mean = read_tokens(text.substr(kExponential.size()));
    return mean ? std::optional(with_mean(Kind::kExponential, *mean, 0)) : std::nullopt;
  }
  if (text.starts_with(kLogNormal)) {
    std::string_view rest = text.substr(kLogNormal.size());
    const auto mean = read_tokens(take_until(rest, ':'));
    const auto sigma = read_number(rest, 0.0, kMostSigma);
    return mean && sigma ? std::optional(with_mean(Kind::kLogNormal, *mean, *sigma)) : std::nullopt;
  }
  const size_t dash = text.find('-');
  const auto least = read_tokens(text.substr(0, dash));
  const auto most = dash == std::string_view::npos ? least : read_tokens(text.substr(dash + 1));
  if (!least || !most || *least > *most) return std::nullopt;
  const Kind kind = dash == std::string_view::npos ? Kind::kFixed : Kind::kUniform;
  return LengthDistribution{kind, *least, *most, (*least + *most) / 2.0};
}

// Returns x such that a standard normal variable is below x with probability `share`. Uses bisection.
double normal_quantile(double share) {
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    const double below = 0.5 * std::erfc(-middle / std::sqrt(2.0));
    (below < share ? low : high) = middle;
  }
  return low;
}

constexpr LengthDistribution up_to(int tokens) {  // rounds 80 % of the length down, as InferenceX does
  return {Kind::kUniform, tokens * 8 / 10, tokens, 0.9 * tokens};
}

constexpr NamedWorkload kWorkloads[]{
    {"1k1k", up_to(1024), up_to(1024)},
    {"1k8k", up_to(1024), up_to(8192)},
    {"8k1k", up_to(8192), up_to(1024)},
};

}  // namespace

int LengthDistribution::draw(double unit) const {
  const auto clamped = [&](double tokens) {
    return static_cast<int>(
        std::lround(std::clamp(tokens, static_cast<double>(least), static_cast<double>(most))));
  };
  switch (kind) {
    case Kind::kFixed:
      break;
    case Kind::kUniform:
      return least + static_cast<int>(unit * (most - least + 1));
    case Kind::kExponential:
      return clamped(-std::log1p(-unit) * mean);
    case Kind::kLogNormal:  // the mean of this distribution is exp(mu + sigma^2 / 2)
      return clamped(mean * std::exp(sigma * normal_quantile(unit) - sigma * sigma / 2));
  }
  return least;
}

LengthDistribution read_length(std::string_view text, std::string_view origin) {
  if (const auto length = parse_length(text)) return *length;
  throw InputError(
      "{} '{}': expected a number of tokens from 1 to {}, a range such as 128-1024 (uniform), exp:512 "
      "(exponential with that mean), or lognormal:512:0.8 (mean, and sigma from 0 to {:g})",
      origin, text, kMaxLengthTokens, kMostSigma);
}

const NamedWorkload* find_workload(std::string_view name) {
  for (const NamedWorkload& workload : kWorkloads)
    if (workload.name == name) return &workload;
  return nullptr;
}

}  // namespace nibble::cli
