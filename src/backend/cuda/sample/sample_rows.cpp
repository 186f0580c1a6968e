#include "backend/cuda/sample/sample_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/errors/check.h"

namespace nibble::cuda {

static_assert(kMaxTop == kMaxLogprobs);

Adjustment& SampleRows::at(TokenId token) {
  NIBBLE_CHECK(token >= 0 && static_cast<size_t>(token) < index_.size(), "token {} of {}", token,
               index_.size());
  int& index = index_[token];
  if (index < 0) {
    index = static_cast<int>(adjustments_.size());
    adjustments_.push_back({token, 0, -1, 0});
  }
  return adjustments_[index];
}

namespace {
bool counts_output(const SampleParams& params) {
  return params.repetition_penalty != 1 || params.presence_penalty != 0 || params.frequency_penalty != 0;
}
}  // namespace

void SampleRows::add_adjustments(const OutputRow& output) {
  const SampleParams& params = *output.sample;
  const bool repeats = params.repetition_penalty != 1;
  const size_t first = adjustments_.size();
  for (const auto& [token, bias] : params.logit_bias) at(token).bias += bias;
  if (repeats)
    for (const TokenId token : output.prompt) at(token).count = 0;
  if (counts_output(params)) {
    for (const TokenId token : output.output) {
      int& count = at(token).count;
      count = std::max(count, 0) + 1;
    }
  }
  for (size_t i = first; i < adjustments_.size(); ++i) index_[adjustments_[i].token] = -1;
}

void SampleRows::add(const OutputRow& output, SamplePosition position, OptionalIndex follows) {
  SampleRow& row = *next_++ = {};
  row.temperature = -1;
  row.follows = -1;
  if (!output.sample) return;
  const SampleParams& params = *output.sample;
  NIBBLE_CHECK(params.temperature >= 0 && params.top_p > 0 && params.min_p <= 1 && params.top_k >= 0,
               "temperature {}, top_p {}, min_p {}, top_k {}", params.temperature, params.top_p, params.min_p,
               params.top_k);
  NIBBLE_CHECK(params.num_logprobs <= kMaxTop, "{} log-probabilities, at most {}", params.num_logprobs,
               kMaxTop);
  NIBBLE_CHECK(position.is_known() || !counts_output(params),
               "penalties need the output so far, which is unknown");
  row.seed = params.seed;
  row.position = position;
  row.top_p = params.top_p < 1 ? static_cast<uint64_t>(std::ceil(std::ldexp(double{params.top_p}, 64))) - 1
                               : kAllTokens;
  row.top_k = params.top_k;
  row.num_logprobs = params.num_logprobs;
  row.temperature = params.temperature;
  row.min_p = params.min_p;
  row.repetition_penalty = params.repetition_penalty;
  row.presence_penalty = params.presence_penalty;
  row.frequency_penalty = params.frequency_penalty;
  const size_t first = adjustments_.size();
  add_adjustments(output);
  row.num_adjustments = static_cast<int>(adjustments_.size() - first);
  if (follows.has_value() && counts_output(params)) {
    row.follows = follows.value();
    adjustments_.push_back({0, 0, 1, 0});
  }
  if (output.mask) masks_.push_back({&row, output.mask});
  are_greedy_ &= row.temperature == 0 && row.num_adjustments == 0 && row.follows < 0 &&
                 row.num_logprobs < 0 && !output.mask;
}

void SampleRows::Room::make(size_t bytes) {
  std::swap(pinned, last_pinned);
  if (pinned.bytes() < bytes) pinned = PinnedBuffer(2 * bytes);
  if (device.bytes() >= bytes) return;
  outgrown = std::move(device);
  device = DeviceBuffer(2 * bytes);
}

void SampleRows::upload(Stream stream) {
  // Buffers of masks are allocated here instead of in upload_masks(): by then, other GPUs may already wait
  // for this GPU, and an allocation, which waits for the other GPUs, would cause a deadlock.
  if (!masks_.empty()) mask_room_.make(masks_.size() * mask_bytes());
  for (size_t i = 0; i < masks_.size(); ++i)
    masks_[i].row->mask = mask_room_.device.as<uint32_t>() + i * mask_words(static_cast<int>(index_.size()));
  if (adjustments_.empty()) return;
  const size_t bytes = adjustments_.size() * sizeof(Adjustment);
  adjustment_room_.make(bytes);
  auto* next = adjustment_room_.device.as<Adjustment>();
  for (SampleRow* row = rows_; row != next_; ++row) {
    row->adjustments = next;
    next += row->num_adjustments + (row->follows >= 0);
  }
  std::memcpy(adjustment_room_.pinned.as<void>(), adjustments_.data(), bytes);
  check(cudaMemcpyAsync(adjustment_room_.device.as<void>(), adjustment_room_.pinned.as<void>(), bytes,
                        cudaMemcpyHostToDevice, stream),
        "copying biases and penalties");
}

void SampleRows::upload_masks(Stream stream) {
  if (masks_.empty()) return;
  const size_t num_words = mask_words(static_cast<int>(index_.size()));
  auto* const words = mask_room_.pinned.as<uint32_t>();
  for (size_t i = 0; i < masks_.size(); ++i) masks_[i].source->fill({words + i * num_words, num_words});
  check(cudaMemcpyAsync(mask_room_.device.as<void>(), words, masks_.size() * mask_bytes(),
                        cudaMemcpyHostToDevice, stream),
        "copying masks");
}

SampledToken to_sampled(const SampleResult& result) {
  SampledToken sampled;
  sampled.token = result.token;
  sampled.logprob = result.logprob;
  for (int i = 0; i < result.num_top; ++i)
    sampled.top.push_back({result.top[i].token, result.top[i].logprob});
  return sampled;
}

}  // namespace nibble::cuda
