// The items of a response (reasoning, message, tool calls), and the events that stream them. Both come from
// the same deltas, so the events add up to the items. Each harmony message becomes one item.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "server/api/chat_answer.h"
#include "server/api/reply.h"
#include "text/tokenizer.h"

namespace nibble::server {

struct ItemKind;  // a row of the table in response_items.cpp

class ResponseItems {
 public:
  // The tokenizer must outlive this object. `seals_reasoning`: reasoning items have `encrypted_content`.
  ResponseItems(const Tokenizer& tokenizer, bool with_logprobs, bool seals_reasoning)
      : tokenizer_(tokenizer), with_logprobs_(with_logprobs), seals_reasoning_(seals_reasoning) {}

  // Returns the new events, without sequence numbers.
  std::vector<Json> push(const std::vector<AnswerDelta>& deltas);
  std::vector<Json> finish(bool is_complete);  // ends the last item, as incomplete if `is_complete` is false

  const Json& items() const { return items_; }  // the response's list "output": all items that have begun

 private:
  void push(const AnswerDelta& delta, std::vector<Json>& events);
  void begin(const AnswerDelta& delta, std::vector<Json>& events);
  void end(std::string_view status, std::vector<Json>& events);
  Json event(std::string_view type) const;  // an event about the last item

  const Tokenizer& tokenizer_;
  bool with_logprobs_, seals_reasoning_;
  Json items_ = Json::array();
  const ItemKind* open_{nullptr};  // kind of the last item while that item is incomplete
  std::string arguments_;          // arguments of the last call, if its item shows them as an object
};

}  // namespace nibble::server
