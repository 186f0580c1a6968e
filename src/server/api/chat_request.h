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
  harmony::Chat chat;                 // the chat, with the functions offered to the model
  std::vector<OfferedTool> offered;   // the functions in `chat`, each with the kind of its original tool
  bool uses_functions{false};         // uses `functions`, the API's older form of `tools`
  bool continues_final{false};        // the answer continues the last message, which is the assistant's
  bool adds_generation_prompt{true};  // false: the prompt ends with the last message
  bool includes_reasoning{true};
  bool is_resumable{false};      // the answer goes on if the connection is lost
  bool returns_progress{false};  // a stream reports the place in the queue and the progress of the prompt
  std::string prediction{};      // the answer that the client expects; empty: no prediction
};

ChatRequest read_chat_request(std::string_view body, const RequestDefaults& defaults = {});
ChatRequest read_chat(const Json& json, const RequestDefaults& defaults = {});

}  // namespace nibble::server
