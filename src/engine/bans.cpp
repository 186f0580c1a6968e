#include "engine/bans.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace nibble {
namespace {

constexpr float kNever{-std::numeric_limits<float>::infinity()};

}  // namespace

BannedSampling::BannedSampling(SampleParams sample, std::vector<std::vector<TokenId>> runs,
                               const StopParams& stop)
    : sample_(std::move(sample)),
      runs_(std::move(runs)),
      min_tokens_(stop.tokens.empty() ? 0 : stop.min_tokens) {
  if (min_tokens_ > 0) stop_tokens_ = stop.tokens;
  for (const auto& run : runs_) {
    if (run.size() == 1) sample_.logit_bias.emplace_back(run.front(), kNever);
    needs_output_ |= run.size() > 1;
  }
  num_fixed_ = sample_.logit_bias.size();
}

const SampleParams& BannedSampling::at(std::span<const TokenId> output, int index) {
  if (!has_bans()) return sample_;
  auto& biases = sample_.logit_bias;
  const auto ban = [&](TokenId token) { biases.emplace_back(token, kNever); };
  biases.resize(num_fixed_);
  if (index < min_tokens_)
    for (const TokenId token : stop_tokens_) ban(token);
  for (const auto& run : runs_) {
    const std::span before = std::span(run).first(run.size() - 1);
    if (before.empty() || before.size() > output.size()) continue;
    if (std::equal(before.begin(), before.end(), output.last(before.size()).begin())) ban(run.back());
  }
  return sample_;
}

}  // namespace nibble
