// Guards against scripts of other sites, which run in a user's browser and reach the user's servers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/request_head.h"

namespace nibble::server {

struct AccessRules {
  // Accepted names in the Host header, with any port. Empty, or "*": all. Stops DNS rebinding, in which a
  // page makes its own name resolve to 127.0.0.1: its requests carry that name.
  std::vector<std::string> hosts{};
  std::vector<std::string> cors_origins{};  // pages that may call this server from a browser; "*": all
};

// Throws HttpError (403) for an unknown Host, or an Origin that is neither known nor this server's own.
void check_access(const AccessRules& rules, const HttpRequest& request);

// Whether pages of this origin may read answers (CORS).
bool is_cors_origin(const AccessRules& rules, std::string_view origin);

}  // namespace nibble::server
