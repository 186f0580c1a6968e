// Reads the body of a request to /v1/responses into plain values.
//
// Its input is a text or a list of items: messages, reasoning, function calls and their results. Consecutive items of the
// assistant become one chat message, as long as they come in the order reasoning, text, calls.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harmony/chat.h"
#include "server/api/generation_params.h"

namespace nibble::server {

struct ResponseRequest {
  GenerationParams params;
  harmony::Chat chat;  // its messages are those of the input, without the previous response's
  std::optional<std::string> previous_id;
  bool store{true};
  harmony::Json body;  // the request without its input: the answer repeats parts of it
};

// Throws InputError.
ResponseRequest read_response_request(std::string_view body);

// The items of an input, or of a response's output, as chat messages.
std::vector<harmony::ChatMessage> read_items(const harmony::Field& items);

}  // namespace nibble::server
