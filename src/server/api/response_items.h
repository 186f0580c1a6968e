// What a model says as the items of a response, and the events that tell a stream of them. The items are what the events
// add up to: both are made of the same deltas. An item is a message of the model: reasoning, message, function_call.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/chat_answer.h"
#include "server/api/reply.h"
#include "text/tokenizer.h"

namespace nibble::server {

class ResponseItems {
 public:
  // The tokenizer outlives it.
  ResponseItems(const Tokenizer& tokenizer, bool with_logprobs)
      : tokenizer_(tokenizer), with_logprobs_(with_logprobs) {}

  // Events without their sequence numbers, in order.
  std::vector<Json> push(const std::vector<AnswerDelta>& deltas);
  std::vector<Json> finish(bool is_complete);  // the last item may be cut off

  // The list "output": of the items that have begun.
  const Json& items() const { return items_; }

 private:
  void push(const AnswerDelta& delta, std::vector<Json>& events);
  void begin(const AnswerDelta& delta, std::vector<Json>& events);
  void end(std::string_view status, std::vector<Json>& events);
  Json event(std::string_view type) const;  // of the last item

  const Tokenizer& tokenizer_;
  bool with_logprobs_;
  Json items_ = Json::array();
  std::optional<AnswerDelta::Kind> open_;  // the last item, while it goes on
};

}  // namespace nibble::server
