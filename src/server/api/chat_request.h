// Reads the body of a request to /v1/chat/completions.
#pragma once

#include <string>
#include <string_view>

#include "harmony/chat.h"
#include "harmony/json_text.h"
#include "server/api/generation_params.h"
#include "server/api/tools.h"

namespace nibble::server {

struct ChatRequest {
  GenerationParams params;
  harmony::Chat chat;                 // with the functions that may be called
  std::vector<OfferedTool> offered;   // the same with their kinds
  bool uses_functions{false};         // the request has `functions`, as the API had it before `tools`
  bool continues_final{false};        // the answer goes on with the last message, which is the assistant's
  bool adds_generation_prompt{true};  // false: the prompt ends with the last message
  bool includes_reasoning{true};
  std::string prediction{};  // what the client expects the answer to be; empty: nothing
};

// Both throw InputError.
ChatRequest read_chat_request(std::string_view body, const RequestDefaults& defaults = {});
ChatRequest read_chat(const harmony::Json& json, const RequestDefaults& defaults = {});

}  // namespace nibble::server
