// Builds prompts and engine requests. Changes nothing in the service, so it may run on the parse pool.
#pragma once

#include <string>
#include <vector>

#include "server/api/chat_request.h"
#include "server/http/http_error.h"
#include "server/service/service.h"

namespace nibble::server {

// A prompt that leaves no room for an answer, with OpenAI's message; endpoints may use their API's.
class ContextLengthError : public HttpError {
 public:
  ContextLengthError(size_t num_tokens, int max_context);
  size_t num_tokens;
  int max_context;
};

struct ChatPrompt {
  std::string text;
  std::vector<TokenId> tokens;
  // To continue the last message: its header, and its text so far.
  std::vector<TokenId> begun, begun_text;
};

// The date is today's, in local time, unless the options set it. Throws InputError.
ChatPrompt chat_prompt(const Service& service, const ChatRequest& request);

// Drops the oldest messages (calls with results) to fit. Keeps instructions and the last turn.
ChatPrompt shortened_prompt(const Service& service, const ChatRequest& request);

// The caller sets stop strings. Throws HttpError for an empty or too long prompt, or an unknown token.
GenerationRequest make_generation_request(const Service& service, const GenerationParams& params,
                                          std::vector<TokenId> prompt);

}  // namespace nibble::server
