// Reads request bodies, as OpenAI's API defines them, into plain values. It knows neither HTTP nor a model.
//
// Unknown parameters are ignored, as all servers of this API do, and null counts as absent. A known parameter with an
// unusable value is refused, and so is one that would change the answer and is not implemented (response_format, a forced
// tool call, ...): an answer that silently ignores what was asked for is worse than an error.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "harmony/chat.h"
#include "harmony/field.h"

namespace nibble::server {

// Parameters that all endpoints with a generated answer share.
struct GenerationParams {
  std::optional<std::string> model;
  SampleParams sample{.temperature = 1};
  bool has_seed{false};  // false: a random seed is chosen
  std::optional<int> max_tokens;
  int num_choices{1};  // answers to each prompt
  std::vector<std::string> stop;
  bool ignore_eos{false};  // generate on after the model's end token, for measuring
  bool stream{false};
  bool include_usage{false};  // a stream ends with a chunk of usage
};

struct ChatRequest {
  GenerationParams params;
  harmony::Chat chat;  // its tools are empty where tool_choice is "none"
};

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  GenerationParams params;
  std::vector<Prompt> prompts;
  bool echo{false};
};

// Helpers that the readers of all endpoints share. All throw InputError.
GenerationParams read_params(const harmony::Field& request);
bool offers_tools(const harmony::Field& request);  // false where tool_choice is "none"
int64_t whole(const harmony::Field& field, int64_t least, int64_t most);
bool read_boolean(const harmony::Field& request, const char* key);  // absent: false

struct TokenizeRequest {
  std::string text;
  bool parse_special{true};           // "<|start|>" in the text is the control token
  std::optional<harmony::Chat> chat;  // if set, tokenize this chat's prompt instead of `text`
  bool with_texts{false};             // also return the text of each token
};

inline constexpr int kMaxChoices{128};              // OpenAI's limit of n
inline constexpr int kDefaultCompletionTokens{16};  // OpenAI's default of max_tokens for /v1/completions

// All throw InputError: "request.temperature must be a number from 0 to 2, not 7".
ChatRequest read_chat_request(std::string_view body);
CompletionRequest read_completion_request(std::string_view body);
TokenizeRequest read_tokenize_request(std::string_view body);
std::vector<TokenId> read_detokenize_request(std::string_view body);

}  // namespace nibble::server
