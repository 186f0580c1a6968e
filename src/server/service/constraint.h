// Compiles a request's output format and tools to constraints on its answers.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <vector>

#include "server/api/tools.h"
#include "server/service/prompt.h"
#include "server/service/service.h"

namespace nibble::server {

// Constrains a chat's answers to harmony's channels and headers, to callable tools and their declared
// arguments, to the format of the final message, and to the limit of reasoning. Adds no constraint if none is
// needed, or with ignore_eos. Adds what is not enforced to params.ignored. Throws HttpError (400).
asio::awaitable<void> constrain_chat(Service& service, GenerationParams& params,
                                     const std::vector<OfferedTool>& offered, const ChatPrompt& prompt,
                                     std::vector<GenerationRequest>& requests);

// Constrains answers to the request's output format from the first token on.
asio::awaitable<void> constrain_text(Service& service, GenerationParams& params,
                                     std::vector<GenerationRequest>& requests);

}  // namespace nibble::server
