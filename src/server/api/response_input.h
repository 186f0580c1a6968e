// Converts the items of an input to /v1/responses, or of a response's output, to chat messages.
//
// Items are messages, reasoning, tool calls and their results (of every kind of tool in tools.h), and items
// that agents insert: additional tools, messages of other agents. Consecutive items of the assistant become
// one chat message if they come in the order reasoning, text, calls. Items of other types (searches, images,
// snapshots, compactions of other servers) have nothing that the model could read; they are left out and
// listed as ignored.
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
ResponseInput read_items(const harmony::Field& items, IgnoredFields& ignored);

}  // namespace nibble::server
