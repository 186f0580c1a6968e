#include "engine/sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace nibble {
namespace {

// Returns the parameters that make a row choose this token, by a bias larger than all logits. The row still
// reports the log-probability of the model's own logits.
SampleParams choosing(TokenId token, int num_logprobs) {
  return {.logit_bias = {{token, std::numeric_limits<float>::max()}}, .num_logprobs = num_logprobs};
}

// Sets the token of a row that used choosing(). If another token was sampled, the model's logit of `asked` is
// -infinity.
void correct(SampledToken& token, TokenId asked) {
  if (token.token != asked) token.logprob = -std::numeric_limits<float>::infinity();
  token.token = asked;
}

}  // namespace

std::string salt_with_adapter(const GenerationRequest& request) {
  if (request.adapter)
    return fmt::format("{}:{}", static_cast<uint32_t>(*request.adapter), request.cache_salt);
  // The minus sign distinguishes the cache salt "1:x" without an adapter from "x" with adapter 1.
  return request.cache_salt.empty() ? "" : "-" + request.cache_salt;
}

Sequence::Sequence(RequestId id, GenerationRequest request, int max_output_tokens, const Tokenizer& tokenizer,
                   Stopwatch submitted)
    : id_(id),
      num_prompt_tokens_(request.prompt.size()),
      tokens_(std::move(request.prompt)),
      stop_(std::move(request.stop)),
      num_logprobs_(request.sample.num_logprobs),
      sampling_(std::move(request.sample), std::move(request.bans.runs), stop_),
      allowed_(std::move(request.bans.allowed), request.constraint.get()),
      max_output_tokens_(static_cast<size_t>(max_output_tokens)),
      prediction_(std::move(request.prediction)),
      adapter_(request.adapter),
      cache_salt_(salt_with_adapter(request)),
      priority_(request.priority),
      reports_prompt_(request.reports_prompt),
      tokenizer_(&tokenizer),
      stop_strings_(stop_.strings, stop_.keeps_stop),
      submitted_(submitted) {
  if (request.prompt_logprobs >= 0) prompt_logprobs_ = request.prompt_logprobs;
}

int Sequence::take_prompt_rows(int first_position, int num_tokens, std::vector<SampleParams>& rows) {
  if (!prompt_logprobs_) return 0;
  const size_t num_before = rows.size();
  const size_t end = std::min(static_cast<size_t>(first_position + num_tokens), num_prompt_tokens_ - 1);
  for (; num_prompt_rows_ < end; ++num_prompt_rows_)
    rows.push_back(choosing(tokens_[num_prompt_rows_ + 1], *prompt_logprobs_));
  return static_cast<int>(rows.size() - num_before);
}

void Sequence::push_prompt(SampledToken token) {
  correct(token, tokens_[prompt_tokens_.size() + 1]);
  prompt_tokens_.push_back(std::move(token));
}

void Sequence::start(int first_position) {
  if (clock_) return;
  queue_seconds_ = submitted_.seconds();
  clock_.emplace();
  num_cached_tokens_ = first_position;
}

std::optional<PromptEvent> Sequence::report_place(int place) {
  if (!reports_prompt() || place == reported_place_) return std::nullopt;
  reported_place_ = place;
  num_reported_ = -1;
  return PromptEvent{
      .request = id_, .place = place, .num_prompt_tokens = static_cast<int>(num_prompt_tokens_)};
}

std::optional<PromptEvent> Sequence::report_prompt(int num_done) {
  if (!reports_prompt() || num_done <= num_reported_ || std::cmp_greater_equal(num_done, num_prompt_tokens_))
    return std::nullopt;
  reported_place_ = 0;
  num_reported_ = num_done;
  return PromptEvent{.request = id_,
                     .num_prompt_tokens = static_cast<int>(num_prompt_tokens_),
                     .num_cached_tokens = num_cached_tokens_,
                     .num_done_tokens = num_done,
                     .run_seconds = clock_->seconds()};
}

const SampleParams& Sequence::sample(std::span<const TokenId> output, int index) {
  if (!forced_.empty()) return forced_sample_ = choosing(forced_.back(), num_logprobs_);
  return sampling_.at(output, index);
}

// Builds the result of tree_along(), with at most `most` drafts.
class Sequence::TreeBuilder {
 public:
  TreeBuilder(const Sequence& sequence, BannedSampling& sampling, int most)
      : sequence_(sequence), sampling_(sampling), most_(most) {}

  DraftTree build(std::span<const TokenId> proposed, std::span<const int> parents) && {
    const Continuation root = after_known_tokens();
    std::vector<Continuation> next(proposed.size());
    for (size_t i = 0; i < proposed.size(); ++i) {
      const int parent = parent_of(parents, i);
      next[i] = follow(parent < 0 ? root : next[static_cast<size_t>(parent)], proposed[i]);
    }
    return std::move(tree_);
  }

 private:
  // The tokens that may follow a proposed token; none by default.
  struct Continuation {
    int draft{-1};                          // index of the proposed token in the tree
    std::vector<int> forced{};              // indices of drafts that the constraint forces next
    bool goes_on{false};                    // whether other drafts may follow the forced ones
    const AllowedTokens* allowed{nullptr};  // tokens that may follow; null: all tokens
  };

  static std::unique_ptr<AllowedTokens> fork(const AllowedTokens* allowed) {
    return allowed ? std::make_unique<AllowedTokens>(*allowed) : nullptr;
  }
  bool is_full() const { return std::ssize(tree_.drafts) == most_; }
  bool is_stop(TokenId token) const {
    const std::vector<TokenId>& stops = sequence_.stop_.tokens;
    return std::ranges::find(stops, token) != stops.end();
  }
  int add_draft(TokenId token, int parent) {
    tree_.drafts.push_back(token);
    tree_.parents.push_back(parent);
    return static_cast<int>(tree_.drafts.size()) - 1;
  }

  // Returns the parameters for sampling the token after a draft that no forced token follows.
  SampleParams sample_after(int draft) {
    const std::vector<TokenId> path = tree_.drafts_to(draft);
    const std::span<const TokenId> output = sequence_.output();
    std::vector<TokenId> output_then;
    if (sampling_.needs_output()) {
      output_then.assign(output.begin(), output.end());
      output_then.insert(output_then.end(), path.begin(), path.end());
    }
    return sampling_.at(output_then, static_cast<int>(output.size() + path.size()));
  }

  Continuation after_known_tokens() {
    const AllowedTokens* allowed_next = sequence_.allowed_.are_all() ? nullptr : &sequence_.allowed_;
    const std::vector<TokenId> forced(sequence_.forced_.rbegin(), sequence_.forced_.rend());
    Continuation root = add_forced(-1, forced, forced.empty() ? nullptr : fork(allowed_next));
    if (forced.empty()) root.allowed = allowed_next;
    return root;
  }

  // Adds the tokens forced after `draft` (-1: the known tokens) as drafts, and the output rows they need.
  Continuation add_forced(int draft, std::span<const TokenId> forced,
                          std::unique_ptr<AllowedTokens> allowed) {
    Continuation next{.draft = draft};
    for (int last = draft;; forced = forced.subspan(1)) {
      next.goes_on = forced.empty();
      if (last >= 0 && (forced.empty() || sequence_.num_logprobs_ >= 0)) {
        DraftTree::Row& row = tree_.rows.emplace_back(DraftTree::Row{.draft = last});
        row.sample = forced.empty() ? sample_after(last) : choosing(forced.front(), sequence_.num_logprobs_);
        if (forced.empty()) next.allowed = (row.allowed = std::move(allowed)).get();
      }
      if (forced.empty() || is_full() || is_stop(forced.front())) return next;
      last = add_draft(forced.front(), last);
      next.forced.push_back(last);
    }
  }

  // Returns what may follow `token`, proposed after `from`. Adds the token as a draft unless it was forced.
  Continuation follow(const Continuation& from, TokenId token) {
    if (!from.forced.empty()) {
      if (tree_.drafts[static_cast<size_t>(from.forced.front())] != token) return {};
      Continuation next = from;
      next.draft = from.forced.front();
      next.forced.erase(next.forced.begin());
      return next;
    }
    if (!from.goes_on || is_full() || is_stop(token)) return {};
    std::unique_ptr<AllowedTokens> allowed = fork(from.allowed);
    std::vector<TokenId> forced;
    if (allowed) {
      std::optional<std::vector<TokenId>> next = allowed->try_push(token);
      if (!next) return {};
      forced = *std::move(next);
    }
    return add_forced(add_draft(token, from.draft), forced, std::move(allowed));
  }

  const Sequence& sequence_;
  BannedSampling& sampling_;
  const int most_;
  DraftTree tree_;
};

DraftTree Sequence::tree_along(std::span<const TokenId> proposed, std::span<const int> parents, int most) {
  return TreeBuilder(*this, sampling_, most).build(proposed, parents);
}

DraftTree Sequence::unknown_chain(int num_drafts) {
  DraftTree chain;
  chain.drafts.resize(static_cast<size_t>(num_drafts));
  for (int draft = 0; draft < num_drafts; ++draft) {
    chain.parents.push_back(draft - 1);
    chain.rows.push_back(
        {.draft = draft, .sample = sampling_.at(output(), static_cast<int>(output().size()))});
  }
  return chain;
}

FailedEvent Sequence::failure_at(int position) const {
  if (!sampling_.has_bans() && !allowed_.are_listed())  // a constraint alone always leaves a token to sample
    return {id_, fmt::format(
                     "the model's logits at position {} are all NaN or -infinity: its weights may be damaged",
                     position)};
  if (!allowed_.depend_on_answer())
    return {id_, fmt::format("every token is banned at position {}: allow more tokens", position), true};
  return {id_,
          fmt::format("the grammar and the bans leave no token at position {}: ban less with bad_words, "
                      "allowed_token_ids and min_tokens, or request another format",
                      position),
          true};
}

std::optional<TokenId> Sequence::next_forced() const {
  if (forced_.empty() || num_logprobs_ >= 0) return std::nullopt;
  return forced_.back();
}

TokenEvent Sequence::push(SampledToken token, const Stopwatch& step_end) {
  if (!forced_.empty()) {
    if (num_logprobs_ >= 0) correct(token, forced_.back());
    forced_.pop_back();
  } else if (allowed_.depend_on_answer()) {
    forced_ = allowed_.push(token.token);
    std::ranges::reverse(forced_);
  }
  const TokenId id = token.token;
  tokens_.push_back(id);
  last_token_seconds_ = clock_->seconds_to(step_end);
  if (output().size() == 1) first_token_seconds_ = last_token_seconds_;
  const bool is_stop_token = std::ranges::find(stop_.tokens, id) != stop_.tokens.end();
  TokenEvent event{.request = id_,
                   .token = std::move(token),
                   .text = text_of(id, is_stop_token),
                   .num_cached_tokens = num_cached_tokens_,
                   .prompt = std::exchange(prompt_tokens_, {}),
                   .queue_seconds = queue_seconds_,
                   .run_seconds = last_token_seconds_};
  if (is_stop_token)
    end_ = FinishReason::kStopToken;
  else if (stop_strings_.has_stopped())
    end_ = FinishReason::kStopString;
  else if (output().size() >= max_output_tokens_)
    end_ = output().size() == static_cast<size_t>(stop_.max_tokens) ? FinishReason::kMaxTokens
                                                                    : FinishReason::kContextFull;
  return event;
}

// Returns the text that is final now that `token` was added.
std::string Sequence::text_of(TokenId token, bool is_stop_token) {
  if (tokenizer_->is_special(token)) {
    // No text spans a control token: a partial character or stop string before it will never be completed.
    std::string text = stop_strings_.push(utf8_.finish());
    return text += stop_strings_.flush();
  }
  if (is_stop_token && !stop_.keeps_stop) return {};
  std::string text = utf8_.push(tokenizer_->bytes(token));
  const bool is_searched = output().size() > static_cast<size_t>(stop_.min_tokens);
  return is_searched ? stop_strings_.push(std::move(text)) : text;
}

FinishedEvent Sequence::finish(FinishReason reason) {
  std::string text = stop_strings_.push(utf8_.finish());
  text += stop_strings_.flush();
  return {.request = id_,
          .reason = reason,
          .text = std::move(text),
          .num_prompt_tokens = static_cast<int>(num_prompt_tokens_),
          .num_output_tokens = static_cast<int>(output().size()),
          .num_cached_tokens = num_cached_tokens_,
          .num_steps = num_steps_,
          .drafts = drafts_,
          .queue_seconds = clock_ ? queue_seconds_ : submitted_.seconds(),
          .prefill_seconds = first_token_seconds_,
          .decode_seconds = last_token_seconds_ - first_token_seconds_};
}

}  // namespace nibble
