#pragma once

#include <string_view>

#include "core/errors/error.h"
#include "harmony/json_text.h"
#include "server/http/http_error.h"

namespace nibble::server {

// Converts an error of a request's body to an HTTP error (400). If the message begins with a place such as
// "request.messages[2].role", the part after "request." becomes the error's parameter.
HttpError to_http_error(const InputError& error);

std::string_view error_type(int status);  // 400: "invalid_request_error"

Json error_json(const HttpError& error);  // OpenAI's {"error": {"message", "type", "param", "code"}}

}  // namespace nibble::server
