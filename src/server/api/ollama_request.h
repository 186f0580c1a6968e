// Reads the bodies of requests to /api/chat and /api/generate, Ollama's API.
#pragma once

#include <string>
#include <string_view>

#include "server/api/chat_request.h"

namespace nibble::server {

struct OllamaRequest {
  ChatRequest chat;        // params.stream is true unless the request says otherwise
  bool is_raw{false};      // generate: `prompt` is the model's prompt as it is
  std::string prompt;      // if is_raw
  bool only_loads{false};  // it says nothing: clients ask so that the model is loaded
};

// Both throw InputError.
OllamaRequest read_ollama_chat(std::string_view body, const RequestDefaults& defaults = {});
OllamaRequest read_ollama_generate(std::string_view body, const RequestDefaults& defaults = {});

// Reads {"model": NAME}, or "name" as older clients have it.
std::string read_ollama_model(std::string_view body, IgnoredFields& ignored);

// Names have a tag, which says nothing here: "tiny:latest" is "tiny".
std::string without_tag(std::string name);

}  // namespace nibble::server
