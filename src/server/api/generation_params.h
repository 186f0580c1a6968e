// Reads the parameters that all endpoints with a generated answer share, and has helpers for the readers of their bodies.
//
// The readers turn request bodies, as OpenAI's API defines them, into plain values; they know neither HTTP nor a model.
// Null counts as absent. request_fields.h says what becomes of fields that are not obeyed: an answer that silently ignores
// what was asked for is worse than an error.
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
#include "server/api/output_format.h"
#include "server/api/request_defaults.h"
#include "server/api/request_fields.h"

namespace nibble::server {

struct GenerationParams {
  std::optional<std::string> model;
  SampleParams sample{.temperature = 1};
  bool has_seed{false};           // false: a random seed is chosen
  std::optional<int> max_tokens;  // 0 only for completions: nothing is generated
  StopParams stop;                // without max_tokens and the model's own stop tokens
  std::vector<std::string>
      bad_words;  // texts whose tokens no answer has, in the answer's beginning or after a space
  std::optional<std::vector<TokenId>> allowed_tokens;  // ascending
  std::optional<int> truncate_prompt;  // keep this number of the prompt's tokens; -1: those that fit
  bool truncates_end{false};           // keep the first of them, not the last
  OutputFormat format;
  std::optional<int> max_reasoning_tokens;  // of a chat's answer; nothing: as many as the model likes
  bool must_call{false};                    // the answer ends with a call of a tool
  int prompt_logprobs{-1};                  // as GenerationRequest has it
  int num_choices{1};                       // answers to each prompt
  bool ignore_eos{false};                   // generate on after the model's end token, for measuring
  bool return_token_ids{false};
  int priority{0};  // as GenerationRequest has these two
  std::string cache_salt;
  bool stream{false};
  bool include_usage{false};     // a stream ends with a chunk of usage
  bool continuous_usage{false};  // and each of its chunks has the usage so far
  IgnoredFields ignored;
};

inline constexpr int kMaxChoices{128};  // OpenAI's limit of n
inline constexpr size_t kMaxStopStringBytes{1024}, kMaxSaltBytes{1024};
inline constexpr size_t kMaxStopTokens{256}, kMaxBadWords{128};

// Checks all fields of the request against the table for `api`, and reads those that the endpoints share.
GenerationParams read_generation_params(Api api, const harmony::Field& request,
                                        const RequestDefaults& defaults);
void read_sampling(const harmony::Field& request,
                   GenerationParams& params);  // reads temperature to logit_bias
void read_stop(const harmony::Field& request, GenerationParams& params);
void read_sharing(const harmony::Field& request, GenerationParams& params);  // reads priority and cache_salt
// A text, or a list of at most `most` texts, as stop strings may be.
std::vector<std::string> read_texts(const harmony::Field& request, const char* key, size_t most);

std::vector<TokenId> read_tokens(const harmony::Field& field, std::string_view accepted);
int64_t read_whole_number(const harmony::Field& field, int64_t least, int64_t most);
std::optional<int> read_limit(const harmony::Field& field, int least);  // of tokens; nothing for -1: no limit
bool read_boolean(const harmony::Field& request, const char* key);      // absent: false

}  // namespace nibble::server
