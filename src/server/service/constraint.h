// Compiles the format and the tools of a request to constraints on its answers.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <vector>

#include "server/api/tools.h"
#include "server/service/prompt.h"
#include "server/service/service.h"

namespace nibble::server {

// Constrains a chat's answers to harmony's channels and headers, to calls of callable tools with arguments as
// declared, to a final message in the format, and to the limit of reasoning. Sets no constraint if the
// request needs none of these, or with ignore_eos. Adds what is not enforced to params.ignored. Throws
// HttpError (400).
asio::awaitable<void> constrain_chat(Service& service, GenerationParams& params,
                                     const std::vector<OfferedTool>& offered, const ChatPrompt& prompt,
                                     std::vector<GenerationRequest>& requests);

// Constrains answers to the format from their first token on.
asio::awaitable<void> constrain_text(Service& service, GenerationParams& params,
                                     std::vector<GenerationRequest>& requests);

}  // namespace nibble::server
