#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/api/generation_params.h"

namespace nibble::server {

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  GenerationParams params;
  std::vector<Prompt> prompts;
  bool echo{false};
  int num_kept{1};  // the `num_kept` likeliest of params.num_choices answers are returned
};

inline constexpr int kDefaultCompletionTokens{16};  // OpenAI's default for max_tokens in /v1/completions

CompletionRequest read_completion_request(std::string_view body, const RequestDefaults& defaults = {});

}  // namespace nibble::server
