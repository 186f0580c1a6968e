// Answers as JSON of OpenAI's API and as server-sent events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/json.h"
#include "engine/event.h"
#include "harmony/json_text.h"
#include "server/api/chat_answer.h"
#include "text/tokenizer.h"

namespace nibble::server {

// Fields that every chunk of an answer repeats.
struct ReplyHead {
  std::string id;      // "chatcmpl-..."
  int64_t created{0};  // seconds since 1970
  std::string model;
  std::string fingerprint{};  // OpenAI's system_fingerprint; identifies what runs the model
};

struct Usage {
  int num_prompt_tokens{0}, num_output_tokens{0};
  int num_cached_tokens{0};     // prompt tokens that were found in the prefix cache
  int num_reasoning_tokens{0};  // output tokens that are reasoning
  // Number of tokens in the client's prediction (0: none), and number of predicted tokens that were output,
  // summed over all choices.
  int num_prediction_tokens{0}, num_accepted_tokens{0};
};
Json to_json(const Usage& usage);

// Returns llama-server's {"total", "cache", "processed", "time_ms"}, and "queue": the place in the queue.
Json to_json(const PromptEvent& progress);

// Makes the member "usage" of chunks: the usage so far, or null if only the last chunk has it.
struct ChunkUsage {
  bool is_included{false}, is_continuous{false};
  Usage so_far{};

  void add_to(Json& chunk) const;
};

// Returns "length" at a limit, "tool_calls" if a complete call ends the answer, otherwise "stop".
std::string_view finish_reason(FinishReason reason, bool ends_in_call);

// Returns the number that has the shortest decimal form of `value`: 0.7 instead of 0.699999988.
double decimal(float value);

// Returns {"content": [...], "refusal": null}: the log-probabilities of the content's tokens.
Json chat_logprobs(const std::vector<SampledToken>& tokens, const Tokenizer& tokenizer);

Json chat_choice(size_t index, const ChatAnswer& answer, std::string_view finish_reason,
                 const Json& logprobs);
// Renames a call to "function_call", for clients that sent `functions`, the older form of tools.
void use_function_call(Json& message);
Json chat_reply(const ReplyHead& head, Json choices, const Usage& usage);
Json chat_chunk(const ReplyHead& head, size_t index, const Json& delta, const Json& logprobs,
                std::optional<std::string_view> finish_reason);
Json to_json(const AnswerDelta& delta);  // the member "delta" of a chunk

// Builds the four lists of log-probabilities of the completions API. `num_characters`: length of the text
// before the first added token, for the list "text_offset".
class CompletionLogprobs {
 public:
  CompletionLogprobs(const Tokenizer& tokenizer, int64_t num_characters);
  void add_first(TokenId token);  // a prompt's first token, which has no log-probability
  void add(const std::vector<SampledToken>& tokens);
  Json take() { return std::move(lists_); }

 private:
  void add_text(TokenId token);

  const Tokenizer& tokenizer_;
  int64_t num_characters_;
  Json lists_;
};

// Returns a prompt's log-probabilities as vLLM does: per token {"ID": {"logprob", "rank", "decoded_token"}}.
// A token that is not a listed alternative has a null rank. `prompt` starts at the second token.
Json prompt_logprobs(const std::vector<SampledToken>& prompt, const Tokenizer& tokenizer);

// Makes a choice of a completion, or a chunk of a streamed completion: both have the same format.
Json completion_choice(size_t index, const std::string& text, const Json& logprobs,
                       std::optional<std::string_view> finish_reason);
Json completion_reply(const ReplyHead& head, Json choices);

// Returns the last chunk of a stream with stream_options.include_usage: it has the usage and no choices.
Json usage_chunk(const ReplyHead& head, std::string_view object, const Usage& usage);

// Returns the token as text; bytes that are not a whole character become U+FFFD.
std::string token_text(TokenId token, const Tokenizer& tokenizer);

int64_t count_characters(std::string_view text);  // `text` must be valid UTF-8

// Returns JSON on one line. Invalid UTF-8 becomes U+FFFD: a single token may hold part of a character.
std::string print(const Json& json);
std::string sse_event(const Json& json);        // "data: {...}\n\n"
std::string named_sse_event(const Json& json);  // "event: TYPE\ndata: {...}\n\n", with json["type"]
inline constexpr std::string_view kSseDone{"data: [DONE]\n\n"};
inline constexpr std::string_view kSseKeepAlive{":\n\n"};  // a comment, which clients ignore

}  // namespace nibble::server
