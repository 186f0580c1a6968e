// Events of the engine, in order for each request. Each request ends in one FinishedEvent or FailedEvent.
// PromptEvents come before the first TokenEvent, and only if GenerationRequest::reports_prompt is set.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/generation_request.h"
#include "model/batch.h"
#include "speculative/draft_counts.h"

namespace nibble {

// Progress of a request without tokens yet: its place in the queue, or the part of its prompt that has run.
struct PromptEvent {
  RequestId request{};
  int place{0};  // requests that come before it in the queue, plus 1; 0: its prompt runs
  int num_prompt_tokens{0};
  int num_cached_tokens{0};  // found in the prefix cache; 0 while it waits
  int num_done_tokens{0};    // run or cached
  double run_seconds{0};     // since the request's first step began
};

struct TokenEvent {
  RequestId request{};
  SampledToken token{};
  // Text that has become final: valid UTF-8 that can no longer become part of a stop string. A control token
  // has no text, but makes held-back text final, because no character or stop string spans it.
  std::string text{};
  int num_cached_tokens{0};  // prompt tokens taken from the prefix cache
  // The prompt's tokens except the first. Set only in the first event of a request with prompt_logprobs.
  std::vector<SampledToken> prompt{};
  // queue_seconds: from submit() to the request's first step. run_seconds: from then to the end of the step
  // with this token.
  double queue_seconds{0}, run_seconds{0};
};

enum class FinishReason {
  kStopToken,
  kStopString,
  kMaxTokens,
  kContextFull,
  kCancelled,
};
std::string_view name(FinishReason reason);  // "stop token", for example

struct FinishedEvent {
  RequestId request{};
  FinishReason reason{};
  std::string text{};  // text that was still held back
  int num_prompt_tokens{0}, num_output_tokens{0};
  int num_cached_tokens{0};  // prompt tokens taken from the prefix cache
  // Steps that added tokens to the answer: fewer than its tokens if drafts were accepted or tokens forced.
  int num_steps{0};
  speculative::DraftCounts drafts{};
  // queue_seconds: from submit() until the backend is given the first step with a row of the request.
  // prefill_seconds: from then to the end of the step that samples the first token. decode_seconds: from then
  // to the last token.
  double queue_seconds{0}, prefill_seconds{0}, decode_seconds{0};
};

struct FailedEvent {
  RequestId request{};
  std::string message{};  // one line: what is wrong, where, and what to do
  // Whether the request itself is the cause: it contradicts itself or takes too much work.
  bool is_requests_own{false};
};

using Event = std::variant<PromptEvent, TokenEvent, FinishedEvent, FailedEvent>;

inline bool is_last(const Event& event) {  // whether the request has ended
  return std::holds_alternative<FinishedEvent>(event) || std::holds_alternative<FailedEvent>(event);
}

}  // namespace nibble
