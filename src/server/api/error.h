// Errors in the form of OpenAI's API.
#pragma once

#include <string_view>

#include "core/error.h"
#include "harmony/json_text.h"
#include "server/http/http_error.h"

namespace nibble::server {

// The error (400) for a request that a reader refused. The reader's message begins with a place such as
// "request.messages[2].role"; the part behind "request." becomes the parameter's name.
HttpError to_http_error(const InputError& error);

// "invalid_request_error" for 400, and so on.
std::string_view error_type(int status);

// {"error": {"message", "type", "param", "code"}}
harmony::Json error_json(const HttpError& error);

}  // namespace nibble::server
