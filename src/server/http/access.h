// Keeps out pages of other sites, whose scripts run in a user's browser and reach servers that only the user's machine can reach.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/request_head.h"

namespace nibble::server {

struct AccessRules {
  // Which names in the field Host are answered. A page can make its own name point to 127.0.0.1 (DNS rebinding), and then asks with
  // that name. Empty: all; else these, any port. "*": all.
  std::vector<std::string> hosts{};
  std::vector<std::string> cors_origins{};  // pages that may call from a browser; "*": all
};

// Throws HttpError (403) for a Host that is not in the rules, and for an Origin that is neither in them nor the server's own.
void check_access(const AccessRules& rules, const HttpRequest& request);

// The page's origin may read the answer.
bool is_cors_origin(const AccessRules& rules, std::string_view origin);

}  // namespace nibble::server
