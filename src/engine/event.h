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
  SampledToken token;
  std::string
      text;  // now certain: valid UTF-8 that no stop string can still take back. Control tokens have none.
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
  std::string text;  // what was still held back and is now certain
  int num_prompt_tokens{0}, num_output_tokens{0};
  double prefill_seconds{0}, decode_seconds{0};  // to the first token, and from there to the last
};

struct FailedEvent {
  RequestId request{};
  std::string message;  // one line: what, where, what to do
};

using Event = std::variant<TokenEvent, FinishedEvent, FailedEvent>;

}  // namespace nibble
