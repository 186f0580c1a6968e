#include "cli/bench_serve/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "core/errors/error.h"

namespace nibble::cli {

std::string Endpoint::url() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port, base);
}

Endpoint read_endpoint(const std::string& url) {
  constexpr std::string_view kScheme{"http://"}, kTls{"https://"}, kBase{"/v1"};
  const auto refuse = [&](std::string_view why) {
    return InputError("'{}': {}; expected a URL such as http://127.0.0.1:8080", url, why);
  };
  if (url.starts_with(kTls))
    throw refuse("TLS is not supported; use the address of the server behind the proxy");
  if (!url.starts_with(kScheme)) throw refuse("it does not begin with http://");
  std::string rest = url.substr(kScheme.size());
  while (rest.ends_with('/')) rest.pop_back();
  Endpoint endpoint;
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string address = rest.substr(0, slash);
  endpoint.base = rest.substr(slash);
  if (!endpoint.base.ends_with(kBase)) endpoint.base += kBase;

  const size_t bracket = address.find(']');
  const size_t colon = address.find(':', bracket == std::string::npos ? 0 : bracket);
  endpoint.port = colon == std::string::npos ? "80" : address.substr(colon + 1);
  endpoint.host = address.substr(0, colon);
  if (bracket != std::string::npos && address.front() == '[') endpoint.host = address.substr(1, bracket - 1);
  uint16_t port{};
  const char* end = endpoint.port.data() + endpoint.port.size();
  const auto [stop, error] = std::from_chars(endpoint.port.data(), end, port);
  if (error != std::errc{} || stop != end || port == 0)
    throw refuse("its port is not a number from 1 to 65535");
  if (endpoint.host.empty() || url.find_first_of(" \t\r\n") != std::string::npos)
    throw refuse("it has no host");
  return endpoint;
}

}  // namespace nibble::cli
