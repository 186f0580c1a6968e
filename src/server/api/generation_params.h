// Reads the parameters that all endpoints with a generated answer share, and has helpers for the readers of their bodies.
//
// The readers turn request bodies, as OpenAI's API defines them, into plain values; they know neither HTTP nor a model.
// Unknown parameters are ignored, as all servers of this API do, and null counts as absent. A known parameter with an
// unusable value is refused, and so is one that would change the answer and is not implemented (response_format, a forced
// tool call, ...): an answer that silently ignores what was asked for is worse than an error.
//
// All readers throw InputError: "request.temperature must be a number from 0 to 2, not 7".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/generation_request.h"
#include "harmony/field.h"

namespace nibble::server {

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

inline constexpr int kMaxChoices{128};  // OpenAI's limit of n
inline constexpr size_t kMaxStopStringBytes{1024};

GenerationParams read_generation_params(const harmony::Field& request);

bool offers_tools(const harmony::Field& request);  // false where tool_choice is "none"
std::vector<TokenId> read_tokens(const harmony::Field& field, std::string_view accepted);
int64_t read_whole_number(const harmony::Field& field, int64_t least, int64_t most);
bool read_boolean(const harmony::Field& request, const char* key);  // absent: false

}  // namespace nibble::server
