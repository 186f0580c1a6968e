#include "server/page/content_policy.h"

#include <algorithm>
#include <charconv>

#include "core/errors/error.h"

namespace nibble::server {
namespace {

// Pages may load only this server's files, and no site can embed them. Even if markdown.js and Trusted Types
// failed, and a model's text became markup, the text could not run as a script.
constexpr std::string_view kPolicy{
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "};

// The policy of the frame in which the model's JavaScript runs. `sandbox` gives the frame an opaque origin:
// it has no storage, and shares nothing with the page. The frame may evaluate text and start workers from
// blobs. It can load nothing except its own script. Scripts with the nonce may load, and the nonce is not a
// secret, but the model's JavaScript cannot use it: it runs in a worker, and importScripts() and import()
// take no nonce.
constexpr std::string_view kSandboxPolicy{
    "sandbox allow-scripts; default-src 'none'; script-src 'nonce-frame' 'unsafe-eval'; worker-src blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"};

constexpr std::string_view kSandboxFile{"tools/sandbox.html"};

bool is_chat(std::string_view file) { return file == "chat/chat.html" || file == "chat/conversation.html"; }

bool is_host_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-' ||
         letter == '.';
}

bool is_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port > 0 && port < 65536;
}

bool is_origin(std::string_view text) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!text.starts_with(scheme)) continue;
    const std::string_view authority = text.substr(scheme.size());
    const size_t colon = authority.find(':');
    const std::string_view host = authority.substr(0, colon);
    return !host.empty() && std::all_of(host.begin(), host.end(), is_host_letter) &&
           (colon == std::string_view::npos || is_port(authority.substr(colon + 1)));
  }
  return false;
}

}  // namespace

void check_mcp_origin(std::string_view origin) {
  if (!is_origin(origin))
    throw InputError(
        "--mcp-origin '{}' must be an origin such as https://tools.example or http://127.0.0.1:3000: http or "
        "https, a name in small letters or an IPv4 address, and perhaps a port; no path, no wildcard",
        origin);
}

std::string content_policy(std::string_view file, std::span<const std::string> mcp_origins) {
  if (file == kSandboxFile) return std::string(kSandboxPolicy);
  std::string policy(kPolicy);
  policy += "connect-src 'self'";
  if (is_chat(file)) {
    for (const std::string& origin : mcp_origins) policy += " " + origin;
    policy += "; frame-src 'self'";  // of the pages, only the sandbox allows embedding
  }
  // Only install.html may create a Trusted Types policy: it needs one to register the service worker. It
  // shows no text of a model.
  return policy + "; trusted-types " + (file == "install/install.html" ? "nibble-install" : "'none'");
}

}  // namespace nibble::server
