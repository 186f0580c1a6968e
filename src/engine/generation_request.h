// A request to the engine: a prompt, how to sample, when to stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tokens/token.h"
#include "grammar/matching/constraint.h"
#include "model/batch.h"
#include "speculative/prediction.h"

namespace nibble {

enum class RequestId : uint64_t {};

// Limits of request values. The first two are those of OpenAI's API.
inline constexpr float kMaxPenalty{2};  // limit of the absolute value of presence and frequency penalties
inline constexpr float kMaxLogitBias{100};
inline constexpr size_t kMaxStopStrings{16};

struct StopParams {
  int max_tokens{0};  // 0: limited only by the context and the KV cache
  // Until the answer has this number of tokens, no stop token is chosen and no stop string is searched.
  int min_tokens{0};
  // The answer ends at the first of these tokens. That token is reported; its text is added if keeps_stop.
  std::vector<TokenId> tokens{};
  // Stop strings. The text ends before the first of them, even if it spans tokens (engine/stop.h).
  std::vector<std::string> strings{};
  bool keeps_stop{false};  // the text includes the stop string or stop token
};

// Tokens that must not be sampled. engine/bans.h applies `runs`, engine/allowed_tokens.h `allowed`.
struct Bans {
  // The only tokens that may be sampled; null: all. The n answers to a request share the list.
  std::shared_ptr<const std::vector<TokenId>> allowed{};
  std::vector<std::vector<TokenId>> runs{};  // token sequences that must not appear in the answer
};

struct GenerationRequest {
  std::vector<TokenId> prompt{};  // must have at least one token
  SampleParams sample{};
  StopParams stop{};
  Bans bans{};
  // Constraint on the whole answer; null: none. Each of the n answers to a request gets its own copy.
  std::shared_ptr<const grammar::Constraint> constraint{};
  // -1: none. n >= 0: report the log-probability of each prompt token except the first, and of the n (up to
  // kMaxLogprobs) likeliest tokens at its position. The whole prompt then runs, even if cached.
  int prompt_logprobs{-1};
  // Requests share cached data (pages of the prefix cache, finished answers used for drafting) only with
  // requests of the same salt and adapter. Other requests can neither use nor detect that data.
  std::string cache_salt{};
  std::optional<AdapterId> adapter{};  // not set: the model without adapters
  int priority{0};                     // requests with lower values get rows and pages first
  // Text that the client expects as the answer, used only for drafting; null: none.
  std::shared_ptr<const speculative::Prediction> prediction{};
  bool reports_prompt{false};  // send PromptEvents (event.h)
};

// Returns the salt under which a request's data is cached. Requests with different adapters never get the
// same salt.
std::string salt_with_adapter(const GenerationRequest& request);

}  // namespace nibble
