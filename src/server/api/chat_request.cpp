#include "server/api/chat_request.h"

#include <climits>
#include <nlohmann/json.hpp>
#include <utility>

namespace nibble::server {

using harmony::Field;
using harmony::Json;

ChatRequest read_chat(Json json) {
  const Field request(json, "request");
  ChatRequest read;
  read.params = read_generation_params(request);
  if (const auto max_tokens = request.find("max_completion_tokens"))  // the newer name wins
    read.params.max_tokens = static_cast<int>(read_whole_number(*max_tokens, 1, INT_MAX));
  const auto top = request.find("top_logprobs");
  if (read_boolean(request, "logprobs"))
    read.params.sample.num_logprobs = top ? static_cast<int>(read_whole_number(*top, 0, kMaxLogprobs)) : 0;
  else if (top && top->value() != 0)
    top->refuse("absent or 0 where logprobs is not true");
  const bool with_tools = offers_tools(request);
  if (const auto messages = request.find("messages");
      messages && messages->value().is_array() && messages->value().empty())
    messages->refuse("a list of at least one message");
  // Passes on only what OpenAI's API has: chat_from_json also reads a date and the model's identity.
  Json chat = Json::object();
  for (const char* key : {"messages", "tools", "reasoning_effort"})
    if (const auto found = json.find(key); found != json.end()) chat[key] = std::move(*found);
  read.chat = harmony::chat_from_json(chat);
  if (!with_tools) read.chat.tools.clear();
  return read;
}

ChatRequest read_chat_request(std::string_view body) {
  return read_chat(harmony::parse_json(body, "the body"));
}

}  // namespace nibble::server
