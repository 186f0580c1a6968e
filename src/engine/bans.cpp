#include "engine/bans.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace nibble {
namespace {

constexpr float kNever{-std::numeric_limits<float>::infinity()};

}  // namespace

BannedSampling::BannedSampling(SampleParams sample, Bans bans, const StopParams& stop, int vocab)
    : sample_(std::move(sample)),
      bans_(std::move(bans)),
      min_tokens_(stop.tokens.empty() ? 0 : stop.min_tokens),
      vocab_(vocab),
      num_fixed_(sample_.logit_bias.size()) {
  if (min_tokens_ > 0) stop_tokens_ = stop.tokens;
  needs_output_ =
      std::any_of(bans_.runs.begin(), bans_.runs.end(), [](const auto& run) { return run.size() > 1; });
}

const SampleParams& BannedSampling::at(std::span<const TokenId> output, int index) {
  if (!has_bans()) return sample_;
  auto& biases = sample_.logit_bias;
  const auto ban = [&](TokenId token) { biases.emplace_back(token, kNever); };
  if (!is_ready_) {  // not in the constructor: a request that waits takes no memory for it
    is_ready_ = true;
    if (bans_.allowed) {
      std::vector<bool> is_allowed(static_cast<size_t>(vocab_));
      for (const TokenId token : *bans_.allowed) is_allowed[static_cast<size_t>(token)] = true;
      for (TokenId token = 0; token < vocab_; ++token)
        if (!is_allowed[static_cast<size_t>(token)]) ban(token);
    }
    for (const auto& run : bans_.runs)
      if (run.size() == 1) ban(run.front());
    num_fixed_ = biases.size();
  }
  biases.resize(num_fixed_);
  if (index < min_tokens_)
    for (const TokenId token : stop_tokens_) ban(token);
  for (const auto& run : bans_.runs) {
    const std::span before = std::span(run).first(run.size() - 1);
    if (before.empty() || before.size() > output.size()) continue;
    if (std::equal(before.begin(), before.end(), output.last(before.size()).begin())) ban(run.back());
  }
  return sample_;
}

}  // namespace nibble
