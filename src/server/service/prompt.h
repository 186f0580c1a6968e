// Turns what endpoints have read into prompts and requests for the engine. Nothing here changes the service, so that it can run on the
// thread that parses long bodies.
#pragma once

#include <string>
#include <vector>

#include "server/api/chat_request.h"
#include "server/http/http_error.h"
#include "server/service/service.h"

namespace nibble::server {

// A prompt that leaves no room for an answer, in the words of OpenAI's API. Other endpoints may say it in theirs.
class ContextLengthError : public HttpError {
 public:
  ContextLengthError(size_t num_tokens, int max_context);
  size_t num_tokens;
  int max_context;
};

struct ChatPrompt {
  std::string text;
  std::vector<TokenId> tokens;
  // Where the answer goes on with the last message: the header of that message, and what it says already.
  std::vector<TokenId> begun, begun_text;
};

// The chat as the model's prompt. The date in it is today's, in local time, unless the options have one. Throws InputError.
ChatPrompt chat_prompt(const Service& service, const ChatRequest& request);

// The same without the oldest messages of a chat that leaves no room for an answer. Instructions stay, a call goes with its results, and
// the last turn stays whatever its length.
ChatPrompt shortened_prompt(const Service& service, const ChatRequest& request);

// The request for the engine; stop strings are left to the caller. Throws HttpError if the prompt is empty, too long, or not of this
// vocabulary.
GenerationRequest make_generation_request(const Service& service, const GenerationParams& params,
                                          std::vector<TokenId> prompt);

}  // namespace nibble::server
