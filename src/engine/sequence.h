// One request while it runs: its tokens, their text, when it ends, how long it takes. The scheduler knows where its keys and
// values are.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/clock.h"
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
  // `max_output_tokens`: see validate.h. `submitted` was started when the request came. The tokenizer must outlive
  // this.
  Sequence(RequestId id, GenerationRequest request, int max_output_tokens, const Tokenizer& tokenizer,
           Stopwatch submitted = {});

  std::span<const TokenId> tokens() const { return tokens_; }  // prompt, then output
  std::span<const TokenId> prompt() const { return tokens().first(num_prompt_tokens_); }
  std::span<const TokenId> output() const { return tokens().subspan(num_prompt_tokens_); }
  // How the token of the answer with this index is sampled, behind the `output` that is known, and which tokens it may be.
  const SampleParams& sample(std::span<const TokenId> output, int index);
  TokenMask* mask() { return allowed_.are_all() || !forced_.empty() ? nullptr : &allowed_; }
  // At most `most` drafts along `proposed`, which stand behind each other as parent_of() has it: those that may follow and do not end the
  // answer, and what must follow these.
  DraftTree tree_along(std::span<const TokenId> proposed, std::span<const int> parents, int most);
  // A chain of drafts that nobody knows yet: their tokens are to be filled in. Only where needs(true) does not ask for known tokens.
  DraftTree unknown_chain(int num_drafts);
  // While a step is launched its drafts stand behind the tokens that are known.
  void add_drafts(std::span<const TokenId> drafts) {
    tokens_.insert(tokens_.end(), drafts.begin(), drafts.end());
  }
  void drop_drafts(size_t num_drafts) { tokens_.resize(tokens_.size() - num_drafts); }
  // Says why no token may be sampled at a position.
  FailedEvent failure_at(int position) const;
  // Why the answer can't go on, whatever was sampled.
  const std::optional<std::string>& fault() const { return allowed_.fault(); }

  // `behind_drafts`: steps are planned behind drafts of a head that nobody knows yet. Where nobody knows which of these are right, no more is
  // said of the answer than where it began: neither its tokens nor their number.
  SequenceNeeds needs(bool behind_drafts) const {
    const bool is_unlike_others = sampling_.depends_on_output() || !allowed_.are_all() || prediction_;
    return {.known_tokens = sampling_.needs_output() || allowed_.depend_on_answer() ||
                            (behind_drafts && is_unlike_others),
            .whole_prompt = prompt_logprobs_.has_value(),
            .priority = priority_,
            .cache_salt = cache_salt_};
  }
  // Log-probabilities of the prompt, where they are asked for: before a step that runs `num_tokens` from `first_position` on, how its
  // rows are to choose the prompt's next tokens, from the first of these rows on that was not in a step before; and what they gave.
  std::vector<SampleParams> take_prompt_rows(int first_position, int num_tokens);
  void push_prompt(SampledToken token);
  // The steps that were to run such rows were given up: those that gave nothing are taken once more.
  void take_prompt_rows_again() {
    if (output().empty()) num_prompt_rows_ = prompt_tokens_.size();
  }

  // Called before each step that runs tokens of this sequence, from `first_position` on. The first call ends the time in the
  // queue; the tokens before its position were in the prefix cache.
  void start(int first_position);
  // Adds a token to the answer.
  TokenEvent push(SampledToken token);
  // The token that must follow the last one and is to be added without a step. Where log-probabilities are wanted there is none: then
  // such tokens are rows of steps like others, which choose nothing else.
  std::optional<TokenId> next_forced() const;
  // The reason why the answer has ended; nothing while it goes on.
  std::optional<FinishReason> end() const { return end_; }
  // The next token ends the answer, whatever it is: there may be no more.
  bool ends_with_next() const { return output().size() + 1 >= max_output_tokens_; }
  // A step gave tokens, and was to give those that were drafted, if there were any.
  void count_step(int num_drafted, int num_right) {
    ++num_steps_;
    if (num_drafted > 0) drafts_.add(num_drafted, num_right);
  }
  const speculative::Prediction* prediction() const { return prediction_.get(); }
  const std::string& cache_salt() const { return cache_salt_; }
  FinishedEvent finish(FinishReason reason);

 private:
  RequestId id_;
  size_t num_prompt_tokens_;
  std::vector<TokenId> tokens_;
  StopParams stop_;
  int num_logprobs_;
  BannedSampling sampling_;
  AllowedTokens allowed_;
  std::deque<TokenId> forced_;  // tokens that must follow
  SampleParams forced_sample_;  // of the first of them, where log-probabilities are wanted
  size_t max_output_tokens_;
  std::optional<FinishReason> end_;
  std::optional<int> prompt_logprobs_;
  size_t num_prompt_rows_{0};  // that were in a step
  std::vector<SampledToken> prompt_tokens_;
  std::shared_ptr<const speculative::Prediction> prediction_;
  std::string cache_salt_;
  int priority_;
  int num_steps_{0};
  speculative::DraftCounts drafts_;

  const Tokenizer* tokenizer_;
  Utf8Stream utf8_;
  StopStrings stop_strings_;

  Stopwatch submitted_;
  std::optional<Stopwatch> clock_;  // started with the first step
  int num_cached_tokens_{0};
  double queue_seconds_{0}, first_token_seconds_{0}, last_token_seconds_{0};
};

}  // namespace nibble
