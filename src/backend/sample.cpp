// Samples without sorting a row of up to 201,088 logits: greedy takes one pass, plain sampling four, top_k
// keeps a heap of k tokens, top_p sorts only tokens that it may keep. exp is float32: its error (1 ulp, 6e-8
// of a weight) is far below the error of the logits. Sums are float64 in a fixed order.
#include "backend/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/errors/check.h"
#include "core/numbers/random.h"

namespace nibble {
namespace {

constexpr float kMinusInfinity{-std::numeric_limits<float>::infinity()};

float ordered(float logit) {  // replaces NaN and +infinity, which break comparisons and differences
  return std::isnan(logit) ? kMinusInfinity : std::min(logit, std::numeric_limits<float>::max());
}

struct Candidate {
  TokenId token;
  float logit;
  float weight;  // exp((logit - max) / temperature)
};

struct IsLikelier {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  }
};
constexpr IsLikelier kIsLikelier{};

void apply_mask(std::span<float> logits, TokenMask& mask) {
  std::vector<uint32_t> words(mask_words(static_cast<int>(logits.size())));
  mask.fill(words);
  for (size_t v = 0; v < logits.size(); ++v)
    if (!has_token(words, static_cast<TokenId>(v))) logits[v] = kMinusInfinity;
}

bool changes_logits(const SampleParams& params) {
  return !params.logit_bias.empty() || params.repetition_penalty != 1 || params.presence_penalty != 0 ||
         params.frequency_penalty != 0;
}

void apply_bias_and_penalties(std::span<float> logits, const OutputRow& row) {
  const SampleParams& params = *row.sample;
  const auto at = [&](TokenId token) -> float& {
    NIBBLE_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size(), "token {} of {}", token,
                 logits.size());
    return logits[static_cast<size_t>(token)];
  };
  for (const auto& [token, bias] : params.logit_bias) at(token) = ordered(at(token) + bias);

  if (params.repetition_penalty != 1) {
    std::vector<bool> is_done(logits.size());  // a token is penalised once, even if it occurs often
    for (const auto tokens : {row.prompt, row.output}) {
      for (const TokenId token : tokens) {
        float& logit = at(token);
        if (is_done[static_cast<size_t>(token)]) continue;
        is_done[static_cast<size_t>(token)] = true;
        const float penalised =
            logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
        logit = ordered(penalised);
      }
    }
  }
  if (params.presence_penalty != 0 || params.frequency_penalty != 0) {
    std::vector<int> counts(logits.size());
    for (const TokenId token : row.output) {
      at(token);  // checks the id
      ++counts[static_cast<size_t>(token)];
    }
    for (const TokenId token : row.output) {
      const int count = std::exchange(counts[static_cast<size_t>(token)], 0);
      if (count == 0) continue;  // penalised at its first occurrence already
      const float penalty = params.frequency_penalty * static_cast<float>(count) + params.presence_penalty;
      at(token) = ordered(at(token) - penalty);
    }
  }
}

TokenId likeliest(std::span<const float> logits) {
  size_t best = 0;
  for (size_t v = 1; v < logits.size(); ++v)
    if (logits[v] > logits[best]) best = v;
  return static_cast<TokenId>(best);
}

// Returns the n likeliest tokens, likeliest first. The top of the heap is the least likely of the n best so
// far: after a few thousand logits, one comparison excludes nearly every further one.
std::vector<Candidate> top(std::span<const float> logits, size_t n) {
  std::vector<Candidate> best;
  n = std::min(n, logits.size());
  if (n == 0) return best;
  best.reserve(n);
  for (size_t v = 0; v < logits.size(); ++v) {
    const Candidate candidate{static_cast<TokenId>(v), logits[v], 0};
    if (best.size() == n) {
      if (!kIsLikelier(candidate, best.front())) continue;
      std::pop_heap(best.begin(), best.end(), kIsLikelier);
      best.pop_back();
    }
    best.push_back(candidate);
    std::push_heap(best.begin(), best.end(), kIsLikelier);
  }
  std::sort_heap(best.begin(), best.end(), kIsLikelier);
  return best;
}

double sum_weights(std::span<const Candidate> candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += double{candidate.weight};
  return sum;
}

// Keeps the smallest set of likeliest tokens whose weights sum to at least `top_p` of the total. Their order
// is then unspecified.
void keep_nucleus(std::vector<Candidate>& candidates, float top_p) {
  const double total = sum_weights(candidates);
  // All tokens below this weight together weigh less than (1 - top_p) of the total, so none of them is kept.
  // This typically leaves hundreds of the 201,088 tokens of the vocabulary.
  const double negligible = (1 - double{top_p}) * total / static_cast<double>(candidates.size());
  std::erase_if(candidates, [&](const Candidate& c) { return double{c.weight} < negligible; });

  const auto is_less_likely = [](const Candidate& a, const Candidate& b) { return kIsLikelier(b, a); };
  std::make_heap(candidates.begin(), candidates.end(), is_less_likely);
  auto rest_end = candidates.end();
  for (double kept = 0; kept < double{top_p} * total && rest_end != candidates.begin();) {
    std::pop_heap(candidates.begin(), rest_end, is_less_likely);
    --rest_end;
    kept += double{rest_end->weight};
  }
  candidates.erase(candidates.begin(), rest_end);
}

// Returns the tokens that remain after min_p, top_k and top_p, in ascending order of id.
std::vector<Candidate> keep(std::span<const float> logits, float max_logit, const SampleParams& params) {
  const bool has_top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size();
  std::vector<Candidate> candidates;
  if (has_top_k) {
    candidates = top(logits, static_cast<size_t>(params.top_k));
  } else {
    candidates.reserve(logits.size());
    for (size_t v = 0; v < logits.size(); ++v) candidates.push_back({static_cast<TokenId>(v), logits[v], 0});
  }
  for (Candidate& c : candidates) c.weight = std::exp((c.logit - max_logit) / params.temperature);
  // min_p and top_k may be applied in any order, because both keep the likeliest tokens.
  if (params.min_p > 0)
    std::erase_if(candidates, [&](const Candidate& c) { return c.weight < params.min_p; });
  if (params.top_p < 1) keep_nucleus(candidates, params.top_p);
  if (has_top_k || params.top_p < 1)
    std::ranges::sort(candidates, [](auto& a, auto& b) { return a.token < b.token; });
  return candidates;
}

TokenId draw(std::span<const Candidate> candidates, double unit) {
  const double goal = unit * sum_weights(candidates);
  double sum = 0;
  TokenId last = -1;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight == 0) continue;
    sum += double{candidate.weight};
    last = candidate.token;
    if (sum > goal) break;
  }
  return last;  // no sum exceeds a `goal` that was rounded up to the total
}

TokenId choose(std::span<const float> logits, const SampleParams& params, int position) {
  const TokenId best = likeliest(logits);
  const float max_logit = logits[static_cast<size_t>(best)];
  if (max_logit == kMinusInfinity) return -1;
  if (params.temperature == 0) return best;
  return draw(keep(logits, max_logit, params), random_unit(params.seed, static_cast<uint64_t>(position)));
}

void add_logprobs(std::span<const float> logits, int num_top, SampledToken& sampled) {
  const std::vector<Candidate> best = top(logits, static_cast<size_t>(std::max(num_top, 1)));
  const float max_logit = best.front().logit;
  double sum = 0;
  for (const float logit : logits) sum += double{std::exp(logit - max_logit)};
  const double log_sum = double{max_logit} + std::log(sum);
  const auto logprob = [&](float logit) { return static_cast<float>(double{logit} - log_sum); };
  sampled.logprob = logprob(logits[static_cast<size_t>(sampled.token)]);
  for (const Candidate& candidate :
       std::span(best).first(std::min(best.size(), static_cast<size_t>(num_top))))
    sampled.top.push_back({candidate.token, logprob(candidate.logit)});
}

}  // namespace

SampledToken sample(std::span<float> logits, const OutputRow& row, int position) {
  NIBBLE_CHECK(row.sample != nullptr && !logits.empty());
  const SampleParams& params = *row.sample;
  for (float& logit : logits) logit = ordered(logit);
  std::vector<float> raw;  // the model's own logits, kept for log-probabilities
  if (params.num_logprobs >= 0) raw.assign(logits.begin(), logits.end());
  if (row.mask) apply_mask(logits, *row.mask);
  if (changes_logits(params)) apply_bias_and_penalties(logits, row);

  SampledToken sampled;
  sampled.token = choose(logits, params, position);
  if (sampled.token >= 0 && params.num_logprobs >= 0) add_logprobs(raw, params.num_logprobs, sampled);
  return sampled;
}

}  // namespace nibble
