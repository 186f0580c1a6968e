// The body of a request to /v1/responses, read into plain values.
//
// Its input is a text or a list of items: messages, the reasoning and the calls that a response gave, results of calls. Items
// of the assistant that follow each other are one message of a chat: thoughts, words, calls, in this order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harmony/chat.h"
#include "server/api/request.h"

namespace nibble::server {

struct ResponseRequest {
  GenerationParams params;
  harmony::Chat chat;  // its messages are the input alone
  std::optional<std::string> previous_id;
  bool store{true};
  harmony::Json body;  // without its input: what the answer repeats of the request
};

// Throws InputError, as the readers in api_request.h.
ResponseRequest read_response_request(std::string_view body);

// Of an input, or of what a response gave.
std::vector<harmony::ChatMessage> read_items(const harmony::Field& items);

}  // namespace nibble::server
