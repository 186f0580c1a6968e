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

// Limits of accepted values that formulas do not imply. The first two are those of OpenAI's API.
inline constexpr float kMaxPenalty{2};  // presence and frequency penalty, either sign
inline constexpr float kMaxLogitBias{100};
inline constexpr size_t kMaxStopStrings{16};

struct StopParams {
  int max_tokens{0};  // 0: up to the room in the context and in the KV cache
  // Until the answer has this number of tokens, no stop token is chosen and no stop string is searched.
  int min_tokens{0};
  // Each of these ends the answer. It is reported as a token, but adds no text.
  std::vector<TokenId> tokens{};
  // The text ends before the first of these strings, even if the string spans tokens: engine/stop.h.
  std::vector<std::string> strings{};
  bool keeps_stop{false};  // whether the stop string or stop token is part of the text
};

// Tokens that must not be sampled: engine/bans.h for `runs`, engine/allowed_tokens.h for `allowed`.
struct Bans {
  // The only tokens that may be sampled; null: all. The choices of a request share the list.
  std::shared_ptr<const std::vector<TokenId>> allowed{};
  std::vector<std::vector<TokenId>> runs{};  // token sequences that must not appear in the answer
};

struct GenerationRequest {
  std::vector<TokenId> prompt{};  // at least one token
  SampleParams sample{};
  StopParams stop{};
  Bans bans{};
  // Constraint on the whole answer; null: none. Each choice of the request gets a fork of it.
  std::shared_ptr<const grammar::Constraint> constraint{};
  // -1: none. n >= 0: report the log-probability of each prompt token except the first, and of the n
  // likeliest tokens at its place; at most kMaxLogprobs. Then the whole prompt runs, even if cached.
  int prompt_logprobs{-1};
  // Requests share cached data (pages of the prefix cache, finished answers used for drafting) only with
  // requests of the same salt. Other requests can neither use nor detect that data.
  std::string cache_salt{};
  int priority{0};  // lower comes first in the queue, for rows and for pages
  // Text that the client expects as the answer, used only for drafting; null: none.
  std::shared_ptr<const speculative::Prediction> prediction{};
};

}  // namespace nibble
