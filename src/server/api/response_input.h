// The items of an input to /v1/responses, or of a response's output, as chat messages.
//
// They are messages, reasoning, calls and their results, of every kind of tool that has a form in harmony (tools.h), and what agents put
// between: additional tools, words of other agents. Consecutive items of the assistant become one chat message, as long as they come in
// the order reasoning, text, calls. Items of other types (searches, images, snapshots, compactions of other servers) say nothing that
// the model could read; they are left out and named among the ignored fields.
#pragma once

#include <vector>

#include "harmony/chat.h"
#include "server/api/tools.h"

namespace nibble::server {

struct ResponseInput {
  std::vector<harmony::ChatMessage> messages;
  ToolSet tools;  // that items add
};

// Throws InputError for an item that says something and can't be read.
ResponseInput read_items(const harmony::Field& items, IgnoredFields& ignored);

}  // namespace nibble::server
