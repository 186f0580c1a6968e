// The access log: one line per request, at level info.
#pragma once

#include "server/http/exchange.h"

namespace nibble::server {

// `seconds`: from the request's header to the end of its answer. Never logs the text of a prompt or an
// answer.
void log_access(const Exchange& exchange, double seconds);

}  // namespace nibble::server
