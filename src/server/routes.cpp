#include "server/routes.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/program/log.h"
#include "core/text/json.h"
#include "server/absent.h"
#include "server/api/anthropic_answer.h"
#include "server/api/error.h"
#include "server/endpoints/endpoints.h"
#include "server/http/gzip.h"
#include "server/http/http_line.h"
#include "server/http/url.h"
#include "server/service/access_log.h"
#include "server/service/condition.h"
#include "server/service/engine_gate.h"

namespace nibble::server {
namespace {

// Reports readiness: whether requests should be sent to this server.
asio::awaitable<void> health(Service& service, Exchange& exchange) {
  if (service.state == ServiceState::kLoading) {
    Json loading{{"status", "loading"}};
    if (const int percent = service.loading_percent; percent >= 0) loading["percent"] = percent;
    return reply_json(exchange, 503, loading);
  }
  const Condition condition = condition_of(service);
  if (condition.stall != Stall::kNone) return reply_json(exchange, 503, condition.json);
  if (service.state == ServiceState::kReady) return reply_json(exchange, 200, condition.json);
  return reply_json(exchange, 503, {{"status", "draining"}});
}

// Reports liveness: whether the I/O thread and the engine respond. If not, supervisors restart the server. A
// server that is loading, draining or full is alive.
asio::awaitable<void> live(Service& service, Exchange& exchange) {
  const Condition condition = condition_of(service);
  return condition.stall == Stall::kForever ? reply_json(exchange, 503, condition.json)
                                            : reply_json(exchange, 200, {{"status", "ok"}});
}

asio::awaitable<void> version(Service& service, Exchange& exchange) {
  return reply_json(exchange, 200, {{"version", service.options.version}});
}

asio::awaitable<void> metrics(Service& service, Exchange& exchange) {
  std::optional<EngineState> state;
  if (service.gate) state = service.gate->engine().state();
  const bool is_open_metrics =
      exchange.header("Accept").find("application/openmetrics-text") != std::string_view::npos;
  std::string text =
      service.metrics.text(state, is_open_metrics ? MetricsFormat::kOpenMetrics : MetricsFormat::kText);
  if (exchange.header("Accept-Encoding").find("gzip") != std::string_view::npos) {
    text = gzipped(text);
    exchange.add_header("Content-Encoding", "gzip");
  }
  exchange.add_header("Vary", "Accept, Accept-Encoding");
  return exchange.reply(200,
                        is_open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                        : "text/plain; version=0.0.4; charset=utf-8",
                        std::move(text));
}

struct Route {
  std::string_view method, path;
  asio::awaitable<void> (*answer)(Service&, Exchange&);
  bool is_public;    // answered without an API key
  bool needs_model;  // refused with 503 while the model is loading or the server is draining
  bool generates;    // refused with 429 while the engine is full, before its body is read
  ErrorForm errors{ErrorForm::kOpenAi};
};
constexpr Route kRoutes[] = {
    {"GET", "/", &front_page, true, false, false},
    {"GET", "/c/{id}", &conversation_page, true, false, false},
    {"GET", "/status", &status_page, true, false, false},
    {"GET", "/page/{id}", &page_file, true, false, false},
    {"GET", "/status.json", &status, false, false, false},
    {"GET", "/health", &health, true, false, false},
    {"GET", "/healthz", &health, true, false, false},
    {"GET", "/ready", &health, true, false, false},
    {"GET", "/ping", &health, true, false, false},
    {"POST", "/ping", &health, true, false, false},
    {"GET", "/live", &live, true, false, false},
    {"GET", "/version", &version, false, false, false},
    {"GET", "/metrics", &metrics, false, false, false},
    {"GET", "/load", &load, false, true, false},
    {"GET", "/props", &props, false, true, false},
    {"GET", "/v1/models", &models, false, true, false},
    {"GET", "/v1/models/{id}", &model, false, true, false},
    {"POST", "/v1/chat/completions", &chat_completions, false, true, true},
    {"POST", "/v1/completions", &completions, false, true, true},
    {"POST", "/v1/responses", &responses, false, true, true},
    {"POST", "/v1/responses/input_tokens", &response_input_tokens, false, true, false},
    {"POST", "/v1/responses/{id}/cancel", &cancel_response, false, true, false},
    {"GET", "/v1/responses/{id}/input_items", &response_input_items, false, true, false},
    {"GET", "/v1/responses/{id}", &get_response, false, true, false},
    {"DELETE", "/v1/responses/{id}", &delete_response, false, true, false},
    {"GET", "/v1/answers/{id}", &get_answer, false, false, false},
    {"DELETE", "/v1/answers/{id}", &delete_answer, false, false, false},
    {"POST", "/v1/messages", &messages, false, true, true, ErrorForm::kAnthropic},
    {"POST", "/v1/messages/count_tokens", &count_message_tokens, false, true, false, ErrorForm::kAnthropic},
    {"POST", "/api/chat", &ollama_chat, false, true, true, ErrorForm::kOllama},
    {"POST", "/api/generate", &ollama_generate, false, true, true, ErrorForm::kOllama},
    {"GET", "/api/tags", &ollama_tags, false, true, false, ErrorForm::kOllama},
    {"GET", "/api/ps", &ollama_ps, false, true, false, ErrorForm::kOllama},
    {"POST", "/api/show", &ollama_show, false, true, false, ErrorForm::kOllama},
    {"GET", "/api/version", &ollama_version, false, false, false, ErrorForm::kOllama},
    {"POST", "/apply-template", &apply_template, false, true, false},
    {"POST", "/tokenize", &tokenize, false, true, false},
    {"POST", "/detokenize", &detokenize, false, true, false},
    {"GET", "/tokenizer_info", &tokenizer_info, false, true, false},
};

// Returns the route of a method (HEAD: GET) and path; else any route of the path; null for unknown paths.
const Route* find_route(std::string_view method, std::string_view path) {
  const Route* found = nullptr;
  for (const Route& route : kRoutes) {
    if (!match_path(route.path, path)) continue;
    if (route.method == (method == "HEAD" ? "GET" : method)) return &route;
    if (!found) found = &route;
  }
  return found;
}
const Route* find_route(const Exchange& exchange) {
  return find_route(exchange.method(), with_v1(exchange.path()));
}

// Returns the methods that `path` accepts, as "GET, HEAD"; for "*", the methods of all paths.
std::string methods_of(std::string_view path) {
  std::vector<std::string_view> methods;
  for (const Route& route : kRoutes) {
    if (path != "*" && !match_path(route.path, path)) continue;
    if (std::ranges::find(methods, route.method) != methods.end()) continue;
    methods.push_back(route.method);
    if (route.method == "GET") methods.push_back("HEAD");
  }
  return fmt::format("{}", fmt::join(methods, ", "));
}

// Throws HttpError if the path does not accept the method. OPTIONS is always accepted.
void check_method(const Route& route, const Exchange& exchange) {
  const std::string_view method = exchange.method() == "HEAD" ? "GET" : exchange.method();
  if (method == route.method || method == "OPTIONS") return;
  const std::string methods = methods_of(with_v1(exchange.path()));
  // Some agents try a WebSocket first; at status 426 they fall back to POST.
  const bool wants_upgrade = !exchange.header("Upgrade").empty();
  HttpError error(wants_upgrade ? 426 : 405, "'{}' accepts {}, not {}{}", route.path, methods,
                  exchange.method(), wants_upgrade ? "; WebSockets are not supported, only HTTP/1.1" : "");
  error.header = {{"Allow", methods}};
  if (wants_upgrade) {
    error.header.emplace_back("Upgrade", "HTTP/1.1");
    error.header.emplace_back("Connection", "Upgrade");
  }
  throw error;
}

void check_encoding(const Exchange& exchange) {
  const std::string_view encoding = exchange.header("Content-Encoding");
  if (encoding.empty() || equals_ignoring_case(encoding, "identity")) return;
  HttpError error(415,
                  "Content-Encoding '{}' is not supported: send the body uncompressed, without this header",
                  encoding);
  error.header = {{"Accept-Encoding", "identity"}};
  throw error;
}

// Returns advice for an unknown path. Often the client's base URL has an extra "/v1" or another API's path.
std::string advice_for(const Exchange& exchange) {
  const std::string path = with_v1(exchange.path());
  std::string_view meant;
  for (const Route& known : kRoutes) {
    const std::string_view short_path = known.path.substr(known.path.starts_with("/v1/") ? 3 : 0);
    if (short_path.size() > 1 && path.ends_with(short_path) && known.path.size() > meant.size())
      meant = known.path;
  }
  if (!meant.empty()) {
    const std::string_view host = exchange.header("Host");
    return fmt::format(
        "the endpoint is {}. Set the client's base URL to 'http://{}/v1' for OpenAI's API, or to 'http://{}' "
        "for Anthropic's and Ollama's",
        meant, host, host);
  }
  std::vector<std::string_view> paths;
  for (const Route& known : kRoutes)
    if (std::ranges::find(paths, known.path) == paths.end()) paths.push_back(known.path);
  return fmt::format("available paths: {}", fmt::join(paths, ", "));
}

// Returns the request's key, from "Authorization: Bearer KEY", else X-Api-Key (Anthropic) or api-key (Azure).
std::string_view key_in(const Exchange& exchange) {
  constexpr std::string_view kBearer{"bearer "};
  const std::string_view value = exchange.header("Authorization");
  const bool is_bearer =
      value.size() > kBearer.size() && equals_ignoring_case(value.substr(0, kBearer.size()), kBearer);
  if (is_bearer) return value.substr(kBearer.size());
  const std::string_view key = exchange.header("X-Api-Key");
  return key.empty() ? exchange.header("api-key") : key;
}

const ApiKey* find_key(const Service& service, const Exchange& exchange) {
  return service.keys.find(key_in(exchange));
}

// On the first call for a request, records name and owner of its key, because a reload may remove the key
// before the request ends.
void identify(const Service& service, Exchange& exchange) {
  RequestRecord& record = exchange.record();
  if (!record.key_owner.empty()) return;
  if (const ApiKey* key = find_key(service, exchange)) {
    record.key_name = key->name;
    record.key_owner = key->owner;
  }
}

// Whether to omit the answer from the log: load balancers and Prometheus send probes every few seconds.
bool is_answer_to_a_probe(const Route& route, int status) {
  const bool is_probe = route.path == "/health" || route.path == "/live" || route.path == "/metrics";
  return is_probe && (status == 200 || status == 503);
}

}  // namespace

// Probes and metrics must be answered even by a full server: they show operators that it is full.
bool Routes::is_vital(const Exchange& exchange) const {
  return exchange.path() == "/health" || exchange.path() == "/live" || exchange.path() == "/metrics";
}

void Routes::admit(const Exchange& exchange) {
  const Route* route = find_route(exchange);
  // Check the API key before the path: clients without a valid key must not learn which paths exist.
  const bool is_open =
      route && (route->is_public || (service_.options.has_open_metrics && route->path == "/metrics"));
  if (!is_open && !service_.keys.empty() && !find_key(service_, exchange))
    throw HttpError(401,
                    "the header 'Authorization: Bearer KEY' (or X-Api-Key, or api-key) is missing, or its "
                    "key is unknown");
  // "OPTIONS *" is about the whole server, so it needs no route.
  if (!route && exchange.path() == "*") return;
  if (const auto absent = find_absent(with_v1(exchange.path())))
    throw HttpError(501, "{} is not available: {}", absent->path, absent->reason);
  if (!route) throw HttpError(404, "'{}' does not exist; {}", exchange.path(), advice_for(exchange));
  check_method(*route, exchange);
  check_encoding(exchange);
  if (exchange.method() == "OPTIONS") return;
  if (route->needs_model && service_.state == ServiceState::kLoading)
    throw HttpError(503, "the model is loading; try again later");
  if (route->needs_model && service_.state == ServiceState::kDraining)
    throw HttpError(503, "the server is shutting down");
  if (route->generates) service_.gate->check_room(1);
}

void Routes::on_ended(const Exchange& exchange, double seconds) {
  ++service_.num_answered;
  const Route* route = find_route(exchange);
  service_.metrics.observe_http_answer(route ? route->path : "none", exchange.status(), seconds);
  service_.metrics.observe_key(exchange);
  service_.recent_requests.add(exchange);
  if (!route || !is_answer_to_a_probe(*route, exchange.status())) log_access(exchange, seconds);
}

asio::awaitable<void> Routes::answer(Exchange& exchange) {
  identify(service_, exchange);
  if (service_.options.log_bodies)  // logged as a JSON string, which is one line
    log::info("{} body {}", exchange.id(), print(exchange.body()));
  if (exchange.method() == "OPTIONS") {
    exchange.add_header("Allow", methods_of(with_v1(exchange.path())));
    co_await exchange.reply(204, "", "");
    co_return;
  }
  try {
    co_await find_route(exchange)->answer(service_, exchange);
  } catch (const InputError& error) {
    throw to_http_error(error);
  }
}

asio::awaitable<void> Routes::answer_error(Exchange& exchange, const HttpError& error) {
  identify(service_, exchange);
  const Route* route = find_route(exchange);
  const auto absent = find_absent(with_v1(exchange.path()));
  const ErrorForm form = absent ? absent->errors : route ? route->errors : ErrorForm::kOpenAi;
  const Json json = form == ErrorForm::kAnthropic ? anthropic_error(error.status, error.what(), exchange.id())
                    : form == ErrorForm::kOllama  ? Json::object({{"error", error.what()}})
                                                  : error_json(error);
  if (!exchange.has_events()) {
    for (const auto& [name, value] : error.header) exchange.add_header(name, value);
    co_await reply_json(exchange, error.status, json);
    co_return;
  }
  // Status 200 has been sent already, so the error becomes an event of the stream.
  std::string event = form == ErrorForm::kAnthropic ? anthropic_event(json)
                      : form == ErrorForm::kOllama  ? print(json) + "\n"
                                                    : sse_event(json) + std::string(kSseDone);
  co_await exchange.write_events(std::move(event));
  co_await exchange.end_events(error.status);
}

}  // namespace nibble::server
