#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokens/token.h"
#include "server/api/chat_request.h"

namespace nibble::server {

struct TokenizeRequest {
  std::optional<std::string> model;
  std::string text;
  bool parse_special{true};         // true: "<|start|>" in `text` becomes the control token; false: text
  std::optional<ChatRequest> chat;  // if set, its prompt is tokenized instead of `text`
  bool with_texts{false};           // also return the text of each token
  IgnoredFields ignored;
};

struct DetokenizeRequest {
  std::optional<std::string> model;
  std::vector<TokenId> tokens;
  IgnoredFields ignored;
};

TokenizeRequest read_tokenize_request(std::string_view body, const RequestDefaults& defaults = {});
DetokenizeRequest read_detokenize_request(std::string_view body);

}  // namespace nibble::server
