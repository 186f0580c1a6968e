// The access log: one line for each request, at level info.
#pragma once

#include "server/http/exchange.h"

namespace nibble::server {

// `seconds`: from the request's header to the end of its answer. No text of a prompt or an answer is logged.
void log_access(const Exchange& exchange, double seconds);

}  // namespace nibble::server
