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
  int num_kept{1};  // number of answers to return; params.num_choices (best_of) are generated
};

inline constexpr int kDefaultCompletionTokens{16};  // OpenAI's default for max_tokens in /v1/completions

CompletionRequest read_completion_request(std::string_view body, const RequestDefaults& defaults = {});

}  // namespace nibble::server
