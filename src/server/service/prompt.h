// Builds prompts and engine requests. Changes nothing in the service, so it may run on the parse pool.
#pragma once

#include <string>
#include <vector>

#include "server/api/chat_request.h"
#include "server/http/http_error.h"
#include "server/service/service.h"

namespace nibble::server {

// A prompt that leaves no room for an answer. The message is OpenAI's; other APIs may replace it.
class ContextLengthError : public HttpError {
 public:
  ContextLengthError(size_t num_tokens, int max_context);
  size_t num_tokens;
  int max_context;
};

struct ChatPrompt {
  std::string text;
  std::vector<TokenId> tokens;
  // If the answer continues the last message: the tokens of that message's header (`begun`) and of its text
  // (`begun_text`). Otherwise empty.
  std::vector<TokenId> begun, begun_text;
};

// Renders a chat as a prompt. The date is today's (local time) unless the options set one. Throws InputError.
ChatPrompt chat_prompt(const Service& service, const ChatRequest& request);

// Like chat_prompt(), but drops the oldest messages to fit. Keeps instructions and the whole last turn.
ChatPrompt shortened_prompt(const Service& service, const ChatRequest& request);

// Makes the engine's request, without stop strings. Throws HttpError if the prompt is empty, too long, or has
// unknown tokens.
GenerationRequest make_generation_request(const Service& service, const GenerationParams& params,
                                          std::vector<TokenId> prompt);

}  // namespace nibble::server
