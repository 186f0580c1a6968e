#pragma once

#include <string>
#include <string_view>

#include "server/api/chat_request.h"

namespace nibble::server {

struct OllamaRequest {
  ChatRequest chat;        // chat.params.stream is true unless the request sets "stream" to false
  bool is_raw{false};      // /api/generate: `prompt` is used without a template
  std::string prompt;      // set if is_raw
  bool only_loads{false};  // true without a prompt: clients send such requests to load the model
};

OllamaRequest read_ollama_chat(std::string_view body, const RequestDefaults& defaults = {});
OllamaRequest read_ollama_generate(std::string_view body, const RequestDefaults& defaults = {});

// Reads {"model": NAME}; older clients send "name".
std::string read_ollama_model(std::string_view body, IgnoredFields& ignored);

// Removes the tag ":latest", which nibble does not use: "tiny:latest" is "tiny".
std::string without_tag(std::string name);

}  // namespace nibble::server
