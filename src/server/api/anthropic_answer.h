// An answer of Anthropic's Messages API: a message of blocks (thinking, text, tool_use), and the events that
// stream it. Each harmony message becomes a block.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "server/api/chat_answer.h"
#include "server/api/reply.h"

namespace nibble::server {

class AnthropicMessage {
 public:
  AnthropicMessage(const ReplyHead& head, bool shows_thinking);

  // These functions return the next events of the stream.
  std::string begin(const Usage& usage);  // called once, before the others
  std::string push(const std::vector<AnswerDelta>& deltas);
  std::string end(std::string_view stop_reason, const std::string& stop_sequence, const Usage& usage);
  bool has_begun() const { return has_begun_; }

  const Json& json() const { return message_; }  // complete after end()

 private:
  std::string end_block();

  bool shows_thinking_;
  Json message_;
  std::optional<AnswerDelta::Kind> open_;  // kind of the last block while the block is incomplete
  std::string arguments_;                  // arguments of the last block, if it is a call
  bool has_begun_{false};
};

std::string anthropic_event(const Json& event);  // "event: TYPE\ndata: {...}\n\n"

// Returns {"type": "error", "error": {"type", "message"}, "request_id"}.
Json anthropic_error(int status, std::string_view message, std::string_view request_id);

}  // namespace nibble::server
