// GET /, /c/ID, /status and the files that these pages load. All are public: they need no API key.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "server/endpoints/endpoints.h"
#include "server/http/gzip.h"
#include "server/http/http_error.h"
#include "server/http/url.h"
#include "server/page/content_policy.h"
#include "server/page/page_files.h"

namespace nibble::server {
namespace {

// Returns an ETag. The ETag is weak, because plain and compressed text have the same one. The ETag depends on
// --mcp-origin too: after a restart with other origins, browsers must not reuse a copy with the old policy.
std::string entity_tag(const PageFile& file, const std::vector<std::string>& mcp_origins) {
  if (mcp_origins.empty()) return fmt::format("W/\"{}\"", file.hash);
  const size_t hash = std::hash<std::string>{}(content_policy(file.name, mcp_origins));
  return fmt::format("W/\"{}-{:x}\"", file.hash, hash);
}

asio::awaitable<void> reply_page_file(const Service& service, Exchange& exchange, std::string_view name) {
  const auto files = page_files();
  const auto file = std::ranges::find(files, name, &PageFile::name);
  if (!service.options.has_page)
    throw HttpError(404, "'{}' is not available: the server was started with --no-page", exchange.path());
  if (file == files.end()) throw HttpError(404, "'{}' does not exist", exchange.path());
  const std::string tag = entity_tag(*file, service.options.mcp_origins);
  exchange.add_header("ETag", tag);
  exchange.add_header("Cache-Control", "no-cache");  // browsers must revalidate each time
  exchange.add_header("Vary", "Accept, Accept-Encoding");
  exchange.add_header("Content-Security-Policy", content_policy(name, service.options.mcp_origins));
  // The file of the service worker is in /page/, but the worker serves the page in the folder above. This
  // header allows that.
  if (name == "worker.js") exchange.add_header("Service-Worker-Allowed", "..");
  exchange.add_header("X-Content-Type-Options", "nosniff");
  exchange.add_header("Referrer-Policy", "no-referrer");
  if (exchange.header("If-None-Match").find(tag) != std::string_view::npos)
    return exchange.reply(304, "", "");
  if (exchange.header("Accept-Encoding").find("gzip") == std::string_view::npos)
    return exchange.reply(200, file->type, std::string(file->text));
  exchange.add_header("Content-Encoding", "gzip");
  return exchange.reply(200, file->type, gzipped(file->text));
}

// Recognises user agents such as "ollama/0.13.4 (amd64 linux) Go/go1.24" and "ollama-python/0.6.0 ...".
bool is_client_of_ollama(std::string_view user_agent) {
  constexpr std::string_view kName{"ollama"};
  return std::equal(kName.begin(), kName.end(), user_agent.begin(),
                    user_agent.begin() + static_cast<ptrdiff_t>(std::min(kName.size(), user_agent.size())),
                    [](char wanted, char letter) { return wanted == (letter | 0x20); });
}

}  // namespace

// Returns the page to browsers, and a short answer to other clients. Ollama's clients recognise a running
// server by the text "Ollama is running".
asio::awaitable<void> front_page(Service& service, Exchange& exchange) {
  const bool wants_html = exchange.header("Accept").find("text/html") != std::string_view::npos;
  if (wants_html && service.options.has_page) return reply_page_file(service, exchange, "chat/chat.html");
  exchange.add_header("Vary", "Accept, User-Agent");
  if (is_client_of_ollama(exchange.header("User-Agent")))
    return exchange.reply(200, "text/plain; charset=utf-8", "Ollama is running");
  if (exchange.header("Accept").find("application/json") != std::string_view::npos)
    return reply_json(exchange, 200, {{"name", "nibble"}, {"status", "running"}});
  return exchange.reply(200, "text/plain; charset=utf-8", "nibble is running\n");
}

// Returns the page at a conversation's address. Conversations are stored only in the browser.
asio::awaitable<void> conversation_page(Service& service, Exchange& exchange) {
  return reply_page_file(service, exchange, "chat/conversation.html");
}

asio::awaitable<void> status_page(Service& service, Exchange& exchange) {
  return reply_page_file(service, exchange, "status/status.html");
}

asio::awaitable<void> page_file(Service& service, Exchange& exchange) {
  return reply_page_file(service, exchange, match_path("/page/{id}", exchange.path()).value_or(""));
}

}  // namespace nibble::server
