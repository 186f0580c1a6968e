// What the engine answers: plain values, in order for each request. Every request ends in exactly one Finished or Failed.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "engine/request.h"
#include "model/batch.h"

namespace nibble {

struct TokenEvent {
  RequestId request{};
  SampledToken token{};
  // What is now certain: valid UTF-8 that no stop string can still take back. A control token adds no text, but ends
  // what may be waiting: text and stop strings do not go on across it.
  std::string text{};
  int num_cached_tokens{0};  // of the request's prompt: the prefix cache had them, they were not run
};

enum class FinishReason {
  kStopToken,
  kStopString,
  kMaxTokens,
  kContextFull,
  kCancelled,
};
std::string_view name(FinishReason reason);  // "stop token"

struct FinishedEvent {
  RequestId request{};
  FinishReason reason{};
  std::string text{};  // what was still held back and is now certain
  int num_prompt_tokens{0}, num_output_tokens{0};
  int num_cached_tokens{0};  // as in the request's TokenEvents
  // From submit to the request's first step, from there to its first token, and from there to its last.
  double queue_seconds{0}, prefill_seconds{0}, decode_seconds{0};
};

struct FailedEvent {
  RequestId request{};
  std::string message{};  // one line: what, where, what to do
};

using Event = std::variant<TokenEvent, FinishedEvent, FailedEvent>;

}  // namespace nibble
