#include "server/http/access.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "server/http/http_error.h"
#include "server/http/http_line.h"

namespace nibble::server {
namespace {

namespace http = boost::beast::http;

constexpr std::string_view kLoopbackNames[]{"localhost", "127.0.0.1", "[::1]"};

bool is_loopback_name(std::string_view host) {
  return std::ranges::any_of(kLoopbackNames,
                             [&](std::string_view name) { return equals_ignoring_case(host, name); });
}

void check_host(const AccessRules& rules, std::string_view host) {
  if (rules.hosts.empty() || host.empty()) return;  // HTTP/1.0 may omit Host; no browser sends HTTP/1.0
  const std::string_view name = split_authority(host)->host;
  const bool is_known = std::ranges::any_of(rules.hosts, [&](const std::string& known) {
    return known == "*" || equals_ignoring_case(known, name);
  });
  if (!is_known)
    throw HttpError(403,
                    "the Host '{}' is not one of this server's names ({}): use one of them, or start the "
                    "server with --allowed-host {}",
                    host, fmt::join(rules.hosts, ", "), name);
}

// Whether the page that sent the request was loaded from this server: its origin equals the request's Host.
// All loopback names count as equal. The scheme may differ, because a proxy may terminate TLS.
bool is_own(std::string_view origin, std::string_view host) {
  const bool is_tls = origin.starts_with("https://");
  if (!is_tls && !origin.starts_with("http://")) return false;
  const auto page = split_authority(origin.substr(origin.find("//") + 2)), asked = split_authority(host);
  if (!page || !asked) return false;
  const std::string_view default_port = is_tls ? "443" : "80";
  const auto port_of = [&](const Authority& any) { return any.port.empty() ? default_port : any.port; };
  return port_of(*page) == port_of(*asked) &&
         (equals_ignoring_case(page->host, asked->host) ||
          (is_loopback_name(page->host) && is_loopback_name(asked->host)));
}

}  // namespace

bool is_cors_origin(const AccessRules& rules, std::string_view origin) {
  return !origin.empty() && std::ranges::any_of(rules.cors_origins, [&](const std::string& known) {
    return known == "*" || known == origin;
  });
}

void check_access(const AccessRules& rules, const HttpRequest& request) {
  const std::string_view host = to_std(request[http::field::host]);
  check_host(rules, host);
  const auto [first, last] = request.equal_range(http::field::origin);
  for (auto field = first; field != last; ++field) {
    const std::string_view origin = to_std(field->value());
    if (!is_cors_origin(rules, origin) && !is_own(origin, host))
      throw HttpError(
          403,
          "pages of the Origin '{}' may not call this server: to allow them, start it with --cors-origin {}",
          origin, origin);
  }
}

}  // namespace nibble::server
