// One request while it waits and runs: its tokens, text, end and times. Its pages are known to the scheduler.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/system/clock.h"
#include "engine/allowed_tokens.h"
#include "engine/bans.h"
#include "engine/draft_tree.h"
#include "engine/event.h"
#include "engine/generation_request.h"
#include "engine/scheduler.h"
#include "engine/stop.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace nibble {

class Sequence {
 public:
  // `max_output_tokens`: limit on the answer's tokens. `submitted`: stopwatch started when the request
  // arrived. The tokenizer must outlive this object.
  Sequence(RequestId id, GenerationRequest request, int max_output_tokens, const Tokenizer& tokenizer,
           Stopwatch submitted = {});

  std::span<const TokenId> tokens() const { return tokens_; }  // prompt, then output
  RequestId id() const { return id_; }
  std::span<const TokenId> prompt() const { return tokens().first(num_prompt_tokens_); }
  std::span<const TokenId> output() const { return tokens().subspan(num_prompt_tokens_); }
  // Returns how to sample the answer's token with this index. `output`: the known tokens of the answer.
  const SampleParams& sample(std::span<const TokenId> output, int index);
  TokenMask* mask() { return allowed_.are_all() || !forced_.empty() ? nullptr : &allowed_; }
  // Builds a tree of at most `most` drafts from `proposed` (`parents` as in parent_of()): the proposed tokens
  // that the constraint allows and that do not end the answer, and the tokens forced after them.
  DraftTree tree_along(std::span<const TokenId> proposed, std::span<const int> parents, int most);
  // Returns a chain of drafts whose tokens are filled in later. Requires that needs(true).known_tokens is
  // false.
  DraftTree unknown_chain(int num_drafts);
  // Appends the drafts of a step to the tokens while the step is being launched.
  void add_drafts(std::span<const TokenId> drafts) {
    tokens_.insert(tokens_.end(), drafts.begin(), drafts.end());
  }
  void drop_drafts(size_t num_drafts) { tokens_.resize(tokens_.size() - num_drafts); }
  // Returns the event for a sequence whose row at `position` could choose no token.
  FailedEvent failure_at(int position) const;
  // Returns the reason why the constraint can't continue the answer, whatever token was sampled; empty if it
  // can.
  const std::optional<std::string>& fault() const { return allowed_.fault(); }

  // `launches_before_drafts`: a step may be planned before it is known which drafts of the previous step are
  // accepted. Then neither the answer's tokens nor their number are known.
  SequenceNeeds needs(bool launches_before_drafts) {
    const bool is_unlike_others = sampling_.depends_on_output() || !allowed_.are_all() || prediction_;
    return {.known_tokens = sampling_.needs_output() || allowed_.depend_on_answer() ||
                            (launches_before_drafts && is_unlike_others),
            .whole_prompt = prompt_logprobs_.has_value(),
            .priority = priority_,
            .cache_salt = cache_salt_,
            .sequence = this};
  }
  // If prompt log-probabilities are requested, adds the sampling parameters of the prompt rows in a step of
  // `num_tokens` tokens from `first_position` on to `rows`. Leaves out rows that an earlier step had. Returns
  // the number of rows added.
  int take_prompt_rows(int first_position, int num_tokens, std::vector<SampleParams>& rows);
  void push_prompt(SampledToken token);
  // Makes later steps run those prompt rows again whose steps were abandoned without a result.
  void take_prompt_rows_again() {
    if (output().empty()) num_prompt_rows_ = prompt_tokens_.size();
  }

  bool wants_reports() const { return reports_prompt_; }
  // report_place() reports the place of a waiting sequence, report_prompt() the number of the prompt's first
  // tokens that have run or are cached. Both return nullopt if nothing has changed, or if a token of the
  // answer is known.
  std::optional<PromptEvent> report_place(int place);
  std::optional<PromptEvent> report_prompt(int num_done);

  // Called right before the backend is given a step of this sequence. The first call ends the time in the
  // queue; tokens before `first_position` of that call came from the prefix cache.
  void start(int first_position);
  // Adds a sampled token to the answer. `step_end`: a stopwatch that was started when the token's step ended.
  TokenEvent push(SampledToken token, const Stopwatch& step_end);
  // Returns the token that the constraint forces next and that can be added without a step. Returns nullopt
  // if no token is forced, or if log-probabilities are requested, because a forced token then needs a row.
  std::optional<TokenId> next_forced() const;
  // Returns the reason why the answer has ended; nullopt while it continues.
  std::optional<FinishReason> end() const { return end_; }
  void count_step(int num_drafted, int num_right) {
    ++num_steps_;
    if (num_drafted > 0) drafts_.add(num_drafted, num_right);
  }
  const speculative::Prediction* prediction() const { return prediction_.get(); }
  std::optional<AdapterId> adapter() const { return adapter_; }
  const std::string& cache_salt() const { return cache_salt_; }  // the result of salt_with_adapter()
  FinishedEvent finish(FinishReason reason);

 private:
  class TreeBuilder;
  bool reports_prompt() const { return reports_prompt_ && output().empty(); }
  std::string text_of(TokenId token, bool is_stop_token);

  RequestId id_;
  size_t num_prompt_tokens_;
  std::vector<TokenId> tokens_;
  StopParams stop_;
  int num_logprobs_;
  BannedSampling sampling_;
  AllowedTokens allowed_;
  std::vector<TokenId> forced_;  // tokens that the constraint forces next, in reverse order
  SampleParams forced_sample_;   // result of sample() while a token is forced
  size_t max_output_tokens_;
  std::optional<FinishReason> end_;
  std::optional<int> prompt_logprobs_;
  size_t num_prompt_rows_{0};  // number of prompt rows that steps have included
  std::vector<SampledToken> prompt_tokens_;
  std::shared_ptr<const speculative::Prediction> prediction_;
  std::optional<AdapterId> adapter_;
  std::string cache_salt_;
  int priority_;
  int num_steps_{0};
  speculative::DraftCounts drafts_;

  bool reports_prompt_;
  int reported_place_{0}, num_reported_{-1};

  const Tokenizer* tokenizer_;
  Utf8Stream utf8_;
  StopStrings stop_strings_;

  Stopwatch submitted_;
  std::optional<Stopwatch> clock_;  // starts with the first step
  int num_cached_tokens_{0};
  double queue_seconds_{0}, first_token_seconds_{0}, last_token_seconds_{0};
};

}  // namespace nibble
