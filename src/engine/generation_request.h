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

// Limits of accepted values, beside those that the formulas demand. The first two are those of OpenAI's API.
inline constexpr float kMaxPenalty{2};  // presence and frequency, either sign
inline constexpr float kMaxLogitBias{100};
inline constexpr size_t kMaxStopStrings{16};

struct StopParams {
  int max_tokens{0};  // 0: as many as the context and the KV cache have room for
  // Before so many tokens none of `tokens` is chosen, and in their text no stop string is looked for.
  int min_tokens{0};
  std::vector<TokenId> tokens{};  // any of them ends the text; it is reported as a token, but adds no text
  // The text ends before the first of these, also where it spans tokens: engine/stop.h.
  std::vector<std::string> strings{};
  bool keeps_stop{false};  // the text of the stop string or stop token that ended the answer belongs to it
};

// Names what may not be chosen at all: engine/bans.h, and `allowed` engine/allowed_tokens.h.
struct Bans {
  std::shared_ptr<const std::vector<TokenId>> allowed{};  // null: all; choices of a request share it
  std::vector<std::vector<TokenId>> runs{};  // no answer has one of these: the last token of it is banned
};

struct GenerationRequest {
  std::vector<TokenId> prompt{};  // at least one token
  SampleParams sample{};
  StopParams stop{};
  Bans bans{};
  // null: the answer may be anything. Else what it may be from its first token on: each choice of the request has a fork of it.
  std::shared_ptr<const grammar::Constraint> constraint{};
  // n >= 0: the log-probability of each token of the prompt but the first, and of the n likeliest there; at most kMaxLogprobs. The whole
  // prompt is run, whatever the prefix cache has of it.
  int prompt_logprobs{-1};
  // Requests with the same salt share what the engine keeps of their texts: pages of the prefix cache, and answers that drafts are made
  // of. Those with another salt, or none, neither use it nor notice it.
  std::string cache_salt{};
  // Requests with lower numbers come first, wherever requests compete: in the queue, for rows of a step, and for pages (scheduler.h).
  int priority{0};
  // The client expects this text as the answer. The engine drafts it, if it drafts at all, and the answer is the same. Null: nothing is
  // expected.
  std::shared_ptr<const speculative::Prediction> prediction{};
};

}  // namespace nibble
