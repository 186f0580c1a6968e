// Errors in the format of OpenAI's API.
#pragma once

#include <string_view>

#include "core/error.h"
#include "harmony/json_text.h"
#include "server/http/http_error.h"

namespace nibble::server {

// Converts a reader's error to an HTTP error (400). The message begins with a place such as
// "request.messages[2].role"; what follows "request." becomes the error's parameter.
HttpError to_http_error(const InputError& error);

// Returns the error type for a status, such as "invalid_request_error" for 400.
std::string_view error_type(int status);

// Returns {"error": {"message", "type", "param", "code"}}.
harmony::Json error_json(const HttpError& error);

}  // namespace nibble::server
