// Reads requests to /v1/messages, Anthropic's Messages API. Messages (a text or a list of blocks) become a
// chat, in which tool results precede the other text of their message. The first line of Claude Code's system
// prompt is dropped: it differs in every request, so no prompt would ever hit the prefix cache.
#pragma once

#include <string_view>

#include "server/api/chat_request.h"

namespace nibble::server {

struct AnthropicRequest {
  ChatRequest chat;
  bool shows_thinking{false};  // as requested: other clients would take the first block for the answer
};

// Throws InputError. `needs_max_tokens` is false for requests that count tokens.
AnthropicRequest read_anthropic_request(std::string_view body, bool needs_max_tokens,
                                        const RequestDefaults& defaults = {});

}  // namespace nibble::server
