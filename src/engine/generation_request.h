// A request to the engine: a prompt, how to sample, when to stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/token.h"
#include "grammar/matching/constraint.h"
#include "model/batch.h"
#include "speculative/prediction.h"

namespace nibble {

enum class RequestId : uint64_t {};

// Limits of accepted values, besides those that the formulas imply. The first two are those of OpenAI's API.
inline constexpr float kMaxPenalty{2};  // presence and frequency penalty, either sign
inline constexpr float kMaxLogitBias{100};
inline constexpr size_t kMaxStopStrings{16};

struct StopParams {
  int max_tokens{0};  // 0: up to the room in the context and in the KV cache
  // Until the answer has this number of tokens, none of `tokens` is chosen and no stop string is searched
  // for.
  int min_tokens{0};
  // Any of these ends the answer. It is reported as a token, but adds no text.
  std::vector<TokenId> tokens{};
  // The text ends before the first of these strings, even if the string spans tokens: engine/stop.h.
  std::vector<std::string> strings{};
  // The text of the stop string or stop token that ended the answer is part of the answer.
  bool keeps_stop{false};
};

// Tokens that must not be sampled: see engine/bans.h for `runs`, engine/allowed_tokens.h for `allowed`.
struct Bans {
  // The only tokens that may be sampled; null: all. The choices of a request share this list.
  std::shared_ptr<const std::vector<TokenId>> allowed{};
  // Token sequences that must not appear in the answer: the last token of each is banned after the ones
  // before it.
  std::vector<std::vector<TokenId>> runs{};
};

struct GenerationRequest {
  std::vector<TokenId> prompt{};  // at least one token
  SampleParams sample{};
  StopParams stop{};
  Bans bans{};
  // Null: the answer is free. Otherwise the constraint that the answer satisfies from its first token on;
  // each choice of the request has a fork of it.
  std::shared_ptr<const grammar::Constraint> constraint{};
  // -1: none. n >= 0: return the log-probability of each prompt token except the first, and of the n
  // likeliest tokens at its place; at most kMaxLogprobs. The whole prompt is then run, even if the prefix
  // cache holds part of it.
  int prompt_logprobs{-1};
  // Requests share cached data only with requests of the same salt: pages of the prefix cache, and finished
  // answers that drafts are taken from. Other requests, with another salt or none, can neither use nor detect
  // that data.
  std::string cache_salt{};
  // Requests with lower numbers come first wherever requests compete: in the queue, for rows of a step, and
  // for pages (scheduler.h).
  int priority{0};
  // The text that the client expects as the answer; null: none. If the engine drafts at all, it drafts this
  // text. The answer does not depend on it.
  std::shared_ptr<const speculative::Prediction> prediction{};
};

}  // namespace nibble
