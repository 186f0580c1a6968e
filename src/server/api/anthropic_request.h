// Reads the body of a request to /v1/messages, Anthropic's Messages API.
//
// A message is a text or a list of blocks: text, thinking, tool_use, tool_result, ... They become a chat: results of tools come before the
// other text of their message. Claude Code begins the system prompt with a line that is another in every request; it is dropped, because
// no prompt would ever be found in the prefix cache.
#pragma once

#include <string_view>

#include "server/api/chat_request.h"

namespace nibble::server {

struct AnthropicRequest {
  ChatRequest chat;
  bool shows_thinking{false};  // the client asked for thinking: others take the first block for the answer
};

// Throws InputError. `needs_max_tokens`: not where tokens are only counted.
AnthropicRequest read_anthropic_request(std::string_view body, bool needs_max_tokens,
                                        const RequestDefaults& defaults = {});

}  // namespace nibble::server
