// Reads requests to /v1/messages, Anthropic's Messages API, into a chat. In a message, tool results are moved
// before other text. The first line of Claude Code's system prompt is dropped: it differs in every request,
// so no prompt would ever hit the prefix cache.
#pragma once

#include <string_view>

#include "server/api/chat_request.h"

namespace nibble::server {

struct AnthropicRequest {
  ChatRequest chat;
  // Whether the answer contains thinking. False unless the request enables it: some clients take the first
  // block for the answer, even if it is thinking.
  bool shows_thinking{false};
};

// Throws InputError for an invalid body. `needs_max_tokens` is false for requests that only count tokens.
AnthropicRequest read_anthropic_request(std::string_view body, bool needs_max_tokens,
                                        const RequestDefaults& defaults = {});

}  // namespace nibble::server
