// Guards against scripts of other sites: such a script runs in a user's browser and can reach the servers in
// the user's network.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/request_head.h"

namespace nibble::server {

struct AccessRules {
  // Names accepted in the Host header, with any port; empty or "*": all. Prevents DNS rebinding, in which a
  // malicious page makes its own name resolve to 127.0.0.1: its requests still carry that name.
  std::vector<std::string> hosts{};
  std::vector<std::string> cors_origins{};  // pages that may call this server from a browser; "*": all
};

// Throws HttpError (403) for an unknown Host, and for an Origin that is neither known nor this server.
void check_access(const AccessRules& rules, const HttpRequest& request);

// Whether pages of this origin may read the answers (CORS).
bool is_cors_origin(const AccessRules& rules, std::string_view origin);

}  // namespace nibble::server
