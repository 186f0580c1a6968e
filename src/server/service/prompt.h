// Builds prompts and engine requests from what the endpoints have read. Changes nothing in the service, so it
// may run on the parse pool.
#pragma once

#include <string>
#include <vector>

#include "server/api/chat_request.h"
#include "server/http/http_error.h"
#include "server/service/service.h"

namespace nibble::server {

// A prompt that leaves no room for an answer. The message is OpenAI's; other endpoints may use their API's
// own.
class ContextLengthError : public HttpError {
 public:
  ContextLengthError(size_t num_tokens, int max_context);
  size_t num_tokens;
  int max_context;
};

struct ChatPrompt {
  std::string text;
  std::vector<TokenId> tokens;
  // If the answer continues the last message: the header of that message, and its text so far.
  std::vector<TokenId> begun, begun_text;
};

// Renders the chat as the model's prompt. Its date is today's, in local time, unless the options set one.
// Throws InputError.
ChatPrompt chat_prompt(const Service& service, const ChatRequest& request);

// Like chat_prompt(), but drops the oldest messages if the chat leaves no room for an answer. Keeps
// instructions, and the last turn of any length. Drops a call together with its results.
ChatPrompt shortened_prompt(const Service& service, const ChatRequest& request);

// Builds the engine request; the caller sets the stop strings. Throws HttpError if the prompt is empty, too
// long, or has tokens outside the vocabulary.
GenerationRequest make_generation_request(const Service& service, const GenerationParams& params,
                                          std::vector<TokenId> prompt);

}  // namespace nibble::server
