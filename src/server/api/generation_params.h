// Parameters shared by all endpoints that generate, and helpers that read request bodies into plain values.
// All of this works without HTTP and without a model. A null field counts as absent. Errors are InputErrors
// such as "request.temperature must be a number from 0 to 2, not 7". request_fields.h handles unsupported
// fields.
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
  std::optional<int> max_tokens;  // 0 is allowed only for completions, which then generate nothing
  StopParams stop;                // its own max_tokens and the model's stop tokens are set later
  // Texts that must not appear in an answer.
  std::vector<std::string> bad_words;
  // The only tokens that an answer may contain, in ascending order.
  std::optional<std::vector<TokenId>> allowed_tokens;
  std::optional<int> truncate_prompt;  // number of prompt tokens to keep; -1: all that fit
  bool truncates_end{false};           // true: drop the prompt's last tokens; false: its first tokens
  OutputFormat format;
  std::optional<int> max_reasoning_tokens;  // used for chats; absent: no limit
  bool must_call{false};                    // the answer must end with a tool call
  int prompt_logprobs{-1};  // alternatives to report for each prompt token; -1: no log-probabilities
  int num_choices{1};       // answers per prompt
  bool ignore_eos{false};   // continue after the model's end token (used by benchmarks)
  bool return_token_ids{false};
  int priority{0};  // lower values run first
  std::string cache_salt;
  bool stream{false};
  bool include_usage{false};     // a stream's last chunk has the usage
  bool continuous_usage{false};  // every chunk has the usage so far
  int stream_interval{1};        // minimum number of tokens between two events; 1 without `stream`
  IgnoredFields ignored;
};

inline constexpr int kMaxChoices{128};  // OpenAI's limit for n
inline constexpr size_t kMaxStopStringBytes{1024}, kMaxSaltBytes{1024};
inline constexpr size_t kMaxStopTokens{256}, kMaxBadWords{128};

// Checks all fields against the table in request_fields.cpp, and reads the fields that all endpoints share.
GenerationParams read_generation_params(Api api, const Field& request, const RequestDefaults& defaults);
void read_sampling(const Field& request, GenerationParams& params);  // temperature, penalties...
void read_stop(const Field& request, GenerationParams& params);
void read_sharing(const Field& request, GenerationParams& params);  // priority, cache_salt
// Reads a text, or a list of at most `most` texts. Each text has the same size limits as a stop string.
std::vector<std::string> read_texts(const Field& request, const char* key, size_t most);

std::vector<TokenId> read_tokens(const Field& field, std::string_view accepted);
int64_t read_whole_number(const Field& field, int64_t least, int64_t most);
// Reads a limit on a number of tokens. Returns nullopt for -1, which means no limit.
std::optional<int> read_limit(const Field& field, int least);
bool read_boolean(const Field& request, const char* key);  // false if absent

}  // namespace nibble::server
