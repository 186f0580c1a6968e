// Converts items of /v1/responses (a request's input, or an earlier response's output) to chat messages:
// messages, reasoning, tool calls and results of every kind in tools.h, and items that agents insert (more
// tools, other agents' messages). Consecutive assistant items become one message if they are in the order
// reasoning, text, calls. Other items (searches, images, other servers' compactions) are listed as ignored.
#pragma once

#include <vector>

#include "harmony/chat.h"
#include "server/api/tools.h"

namespace nibble::server {

struct ResponseInput {
  std::vector<harmony::ChatMessage> messages;
  ToolSet tools;  // tools that the items add
};

// Throws InputError for an item that the model needs but that can't be read.
ResponseInput read_items(const Field& items, IgnoredFields& ignored);

}  // namespace nibble::server
