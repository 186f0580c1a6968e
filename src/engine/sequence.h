// One request on its way: its tokens, the text they make, when it ends, how long it took. Where its keys and values are
// is the scheduler's business.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/clock.h"
#include "engine/event.h"
#include "engine/request.h"
#include "engine/stop.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace nibble {

class Sequence {
 public:
  // `max_output_tokens`: see validate.h. `submitted` runs since the request came. The tokenizer outlives the sequence.
  Sequence(RequestId id, Request request, int max_output_tokens, const Tokenizer& tokenizer,
           Stopwatch submitted = {});

  std::span<const TokenId> tokens() const { return tokens_; }  // prompt, then output
  std::span<const TokenId> prompt() const { return tokens().first(num_prompt_tokens_); }
  std::span<const TokenId> output() const { return tokens().subspan(num_prompt_tokens_); }
  const SampleParams& sample() const { return sample_; }

  // A step with it begins, which runs tokens from `first_position` on. Time is counted from the first one, not from the
  // queue; what is before it was in the prefix cache.
  void start(int first_position);
  // One more token of the answer.
  TokenEvent push(SampledToken token);
  // Why the answer is at its end; nothing while it goes on.
  std::optional<FinishReason> end() const { return end_; }
  FinishedEvent finish(FinishReason reason);

 private:
  RequestId id_;
  size_t num_prompt_tokens_;
  std::vector<TokenId> tokens_;
  SampleParams sample_;
  StopParams stop_;
  size_t max_output_tokens_;
  std::optional<FinishReason> end_;

  const Tokenizer* tokenizer_;
  Utf8Stream utf8_;
  StopStrings stop_strings_;

  Stopwatch submitted_;
  std::optional<Stopwatch> clock_;  // from the first step
  int num_cached_tokens_{0};
  double queue_seconds_{0}, first_token_seconds_{0}, last_token_seconds_{0};
};

}  // namespace nibble
