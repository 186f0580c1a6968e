// Guards against pages of other sites: their scripts run in a user's browser and can reach servers that only
// the user's machine can reach.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/request_head.h"

namespace nibble::server {

struct AccessRules {
  // Accepted names in the Host header, with any port. Empty, or "*": all names. This stops DNS rebinding: a
  // page makes its own name resolve to 127.0.0.1, and its requests then carry that name.
  std::vector<std::string> hosts{};
  std::vector<std::string> cors_origins{};  // pages that may call this server from a browser; "*": all
};

// Throws HttpError (403) if the Host is not in the rules, or an Origin is neither in them nor this server's
// own.
void check_access(const AccessRules& rules, const HttpRequest& request);

// Returns whether pages of this origin may read answers (CORS).
bool is_cors_origin(const AccessRules& rules, std::string_view origin);

}  // namespace nibble::server
