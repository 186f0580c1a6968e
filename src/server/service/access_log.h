#pragma once

#include "server/http/exchange.h"

namespace nibble::server {

// Logs a request in one line at level info, without text of prompts and answers. `seconds`: from the
// request's header to the end of its answer.
void log_access(const Exchange& exchange, double seconds);

}  // namespace nibble::server
