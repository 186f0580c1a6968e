// Sends any bytes to a server over a connection: through the HTTP parser, the routes and a model that answers
// at once. The server must find the same requests as a strict reader of the same bytes (http_oracle.h), each
// with its path and body, and refuse the rest. Answers must be well-formed and never have status 500, and no
// request or memory may be leaked.
//
// The first byte chooses what the client does, the second where the bytes are split in two. In the rest,
// bytes from 0x80 on stand for phrases of requests, so that short inputs reach more code. 0xFF makes the next
// byte stand for itself.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "core/errors/check.h"
#include "core/program/log.h"
#include "core/text/json.h"
#include "harmony/control_tokens.h"
#include "server/http/http_server.h"
#include "server/routes.h"
#include "server/service/engine_gate.h"
#include "tests/folders.h"
#include "tests/fuzz/http_oracle.h"

namespace {

using namespace nibble;
using namespace nibble::server;
namespace http = boost::beast::http;

constexpr size_t kMaxSize{4096};
constexpr size_t kMaxHeaderBytes{1024}, kMaxBodyBytes{2048};
constexpr int kMaxContext{192};
// N becomes the length of the body, which ends at the next kGet or kPost.
constexpr std::string_view kLength{"Content-Length: N\r\n\r\n"};
constexpr std::string_view kGet{"GET "}, kPost{"POST "};
constexpr std::string_view kPhrases[]{kGet,
                                      kPost,
                                      kLength,
                                      " HTTP/1.1\r\n",
                                      " HTTP/1.0\r\n",
                                      "\r\n",
                                      "HEAD ",
                                      "OPTIONS ",
                                      "/v1/chat/completions",
                                      "/v1/completions",
                                      "/v1/responses",
                                      "/v1/models",
                                      "/tokenize",
                                      "/detokenize",
                                      "/health",
                                      "/live",
                                      "/metrics",
                                      "/version",
                                      "/apply-template",
                                      "?a=b",
                                      "Transfer-Encoding: chunked\r\n\r\n",
                                      "5\r\n",
                                      "0\r\n\r\n",
                                      "Connection: close\r\n",
                                      "Connection: keep-alive\r\n",
                                      "Expect: 100-continue\r\n",
                                      "Host: x\r\n",
                                      "Authorization: Bearer key\r\n",
                                      "Origin: http://a\r\n",
                                      "Content-Length: 4\r\n\r\n",
                                      "X-Request-Id: a\r\n",
                                      "{\"prompt\":",
                                      "{\"messages\":[{\"role\":",
                                      "\"user\",\"content\":",
                                      "{\"input\":",
                                      "{\"tokens\":",
                                      "}]",
                                      "}",
                                      ",",
                                      "\"a\"",
                                      "\"some text \\u00e9 <|start|>\"",
                                      "[1,2,3]",
                                      "[]",
                                      "null",
                                      "true",
                                      "false",
                                      "0",
                                      "-1",
                                      "7",
                                      "1e9",
                                      "\"n\":2",
                                      "\"stream\":true",
                                      "\"stream_options\":{\"include_usage\":true}",
                                      "\"max_tokens\":5",
                                      "\"stop\":\"i\"",
                                      "\"logprobs\":2",
                                      "\"logprobs\":true,\"top_logprobs\":2",
                                      "\"echo\":true",
                                      "\"ignore_eos\":true",
                                      "\"temperature\":",
                                      "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]",
                                      "\"tool_choice\":\"none\"",
                                      "\"model\":\"toy\"",
                                      "\"seed\":1",
                                      "\"store\":true",
                                      "\"previous_response_id\":",
                                      "\"instructions\":",
                                      "Transfer-Encoding: ",
                                      "chunked",
                                      "identity",
                                      "gzip, ",
                                      "Content-Length: ",
                                      "Host: localhost\r\n",
                                      "Host: ",
                                      "http://x",
                                      "Origin: http://x\r\n",
                                      "Origin: null\r\n",
                                      "Content-Encoding: gzip\r\n",
                                      "Upgrade: websocket\r\n",
                                      ";a=\"b\"",
                                      "\r\n ",
                                      ": ",
                                      "DELETE ",
                                      "/v1/answers/",
                                      "?starting_after=1",
                                      "\"resumable\":true",
                                      "\"return_progress\":true",
                                      "\"background\":true"};
static_assert(0x80 + std::size(kPhrases) < 0xFF);

std::string bytes_of(const uint8_t* data, size_t size) {
  std::string out;
  size_t body = std::string::npos;  // start of the body whose length replaces N
  const auto fill_in = [&] {
    if (body == std::string::npos) return;
    out.replace(out.rfind('N', body), 1, std::to_string(out.size() - body));
    body = std::string::npos;
  };
  for (size_t i = 0; i < size; ++i) {
    const size_t phrase = data[i] - size_t{0x80};
    if (data[i] == 0xFF && i + 1 < size) {
      out += static_cast<char>(data[++i]);
    } else if (data[i] < 0x80 || phrase >= std::size(kPhrases)) {
      out += static_cast<char>(data[i]);
    } else {
      if (phrase < 2) fill_in();
      out += kPhrases[phrase];
      if (kPhrases[phrase] == kLength) body = out.size();
    }
  }
  fill_in();
  return out;
}

const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss/tokenizer.json"));
  return tokenizer;
}

// A model that answers every request with the same tokens: reasoning, half a character, an answer, a call,
// and the end.
class ScriptedBackend : public Backend {
 public:
  ScriptedBackend()
      : script_(tiny().encode(
            "<|channel|>analysis<|message|>\xC3<|end|><|start|>assistant<|channel|>final<|message|>hi"
            "<|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>",
            SpecialTokens::kRecognise)) {
    config_.vocab = tiny().num_tokens();
    config_.window = 32;
    config_.max_context = kMaxContext;
  }
  std::string_view name() const override { return "scripted"; }
  const Config& config() const override { return config_; }
  std::vector<KernelChoice> kernels() const override { return {}; }
  StepResult step(const Batch& batch) override {
    StepResult result;
    for (const Run& run : batch.runs) {
      for (const OutputRow& row : run.outputs) {
        SampledToken& token = result.outputs.emplace_back();
        token.token = allowed(row, script_[row.output.size() % script_.size()]);
        for (TokenId other = 0; other < row.sample->num_logprobs; ++other) token.top.push_back({other, -1});
      }
    }
    return result;
  }

 private:
  // Returns the token or, if the mask forbids it, the last allowed token. Control tokens come last, so they
  // end answers that the script does not end.
  TokenId allowed(const OutputRow& row, TokenId token) const {
    if (!row.mask) return token;
    std::vector<uint32_t> mask(mask_words(config_.vocab));
    row.mask->fill(mask);
    if (has_token(mask, token)) return token;
    for (token = config_.vocab - 1; token >= 0 && !has_token(mask, token);) --token;
    return token;
  }

  std::vector<TokenId> script_;
  Config config_;
};

// A request as the routes received it.
struct SeenRequest {
  std::string method, path, query, body;
  // whether the routes answered the request; false: it was refused before its body was read
  bool was_let_in{false};
  int status{0};
};

// Records the requests that reach the routes.
class Recorder : public HttpHandler {
 public:
  explicit Recorder(HttpHandler& routes) : routes_(routes) {}
  bool is_vital(const Exchange& exchange) const override { return routes_.is_vital(exchange); }
  void admit(const Exchange& exchange) override { routes_.admit(exchange); }
  asio::awaitable<void> answer(Exchange& exchange) override {
    now_.was_let_in = true;
    now_.body = exchange.body();
    return routes_.answer(exchange);
  }
  asio::awaitable<void> answer_error(Exchange& exchange, const HttpError& error) override {
    return routes_.answer_error(exchange, error);
  }
  void on_ended(const Exchange& exchange, double seconds) override {
    now_.method = exchange.method();
    now_.path = exchange.path();
    now_.query = exchange.query();
    now_.status = exchange.status();
    seen.push_back(std::exchange(now_, {}));
    routes_.on_ended(exchange, seconds);
  }

  std::vector<SeenRequest> seen;

 private:
  HttpHandler& routes_;
  SeenRequest now_;
};

// A server, its engine and one client. All except the engine run on the test's thread.
class World {
 public:
  World() {
    spdlog::set_level(spdlog::level::off);
    ServedModel model;
    model.tokenizer = &tiny();
    model.vocab = backend_.config().vocab;
    model.max_context = kMaxContext;
    model.stop_tokens = harmony::stop_tokens(tiny());
    service_.model = model;
    service_.gate = std::make_unique<EngineGate>(io_.get_executor(), engine_, service_.metrics, kMaxChoices);
    other_gate_ = std::make_unique<EngineGate>(io_.get_executor(), engine_, service_.metrics, 0);
    service_.state = ServiceState::kReady;
    http_.start();
  }

  enum class Ending {
    kWaits,   // waits for all answers, then closes its sending half
    kCloses,  // closes its sending half after its bytes, and reads the answers
    kBreaks,  // closes the connection after its bytes; the connection is reset if an answer was not read
  };

  // Returns the server's answers. With `is_full`, requests that would run get 429 instead, which is enough
  // for most inputs and takes a tenth of the time.
  std::string send(std::string_view first, std::string_view second, Ending ending, bool is_full) {
    if (is_full != is_full_) std::swap(service_.gate, other_gate_);
    is_full_ = is_full;
    connect();
    push(first);
    settle();
    push(second);
    if (ending == Ending::kWaits) settle();
    if (ending != Ending::kBreaks) {
      ::shutdown(client_, SHUT_WR);
      while (!has_ended_) turn();
    }
    ::close(client_);
    settle();
    seen = std::exchange(recorder_.seen, {});
    NIBBLE_CHECK(service_.gate->num_choices() == 0 && http_.is_idle() && http_.num_body_bytes() == 0,
                 "something is left of a request");
    return std::move(answer_);
  }

  std::vector<SeenRequest> seen;  // requests of the last connection

 private:
  static constexpr size_t kMaxChoices{8};

  static EngineOptions room() {
    EngineOptions options;
    options.num_pages = 64;
    options.max_batch_tokens = 64;
    options.max_sequences = 4;
    return options;
  }

  static ServerOptions options() {
    ServerOptions options;
    options.model_id = "toy";
    options.limits.max_header_bytes = kMaxHeaderBytes;
    options.limits.max_body_bytes = kMaxBodyBytes;
    options.limits.max_bodies_bytes = 512;
    options.limits.uncounted_body_bytes = 128;
    options.max_response_bytes = 4096;
    options.max_kept_bytes = 16384;
    options.keep_alive = std::chrono::hours(1);
    return options;
  }

  void connect() {
    client_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
    NIBBLE_CHECK(client_ >= 0, "no socket");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name_.data(), name_.size());
    const auto num_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    NIBBLE_CHECK(::connect(client_, reinterpret_cast<sockaddr*>(&address), num_bytes) == 0,
                 "no connection: {}", std::strerror(errno));
    answer_.clear();
    has_ended_ = false;
  }

  // Ignores errors of sending, which occur if the server has closed the connection.
  void push(std::string_view bytes) const {
    if (!bytes.empty()) ::send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  // Runs the handlers that are ready. Returns whether any was ready.
  bool turn() {
    bool has_done = io_.poll() > 0;
    // Yields this core to the engine's thread while waiting.
    if (!has_done && service_.gate->num_choices() > 0)
      if (std::optional<Event> event = engine_.wait_event(std::chrono::milliseconds(1))) {
        service_.gate->deliver(std::move(*event));
        has_done = true;
      }
    char bytes[4096];
    const ssize_t num_read = ::recv(client_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (num_read > 0) answer_.append(bytes, static_cast<size_t>(num_read));
    if (num_read == 0 || (num_read < 0 && errno != EAGAIN)) has_ended_ = true;
    return has_done || num_read > 0;
  }

  // Runs until both server and engine wait for the client.
  void settle() {
    while (turn() || service_.gate->num_choices() > 0 || service_.num_offloaded > 0) {
    }
  }

  ScriptedBackend backend_;
  Engine engine_{backend_, tiny(), room()};
  asio::io_context io_{1};
  Service service_{options()};
  Routes routes_{service_};
  // Uses a Unix socket, because two minutes of executions would use up the TCP ports. The socket is in the
  // abstract namespace, so no file is left.
  const std::string name_{std::string(1, '\0') + "nibble-fuzz-" + std::to_string(::getpid())};
  Recorder recorder_{routes_};
  HttpServer http_{
      io_, {.unix_socket = name_}, service_.options.limits, {.hosts = {"x", "localhost"}}, recorder_};
  std::unique_ptr<EngineGate> other_gate_;
  bool is_full_{false};
  int client_{-1};
  std::string answer_;
  bool has_ended_{false};
};

void check_json(std::string_view text) {
  NIBBLE_CHECK(text.starts_with('{') && Json::accept(text), "'{}' is no JSON object", text);
}

void check_events(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    NIBBLE_CHECK(end != std::string_view::npos, "'{}' is no whole line", text);
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    constexpr std::string_view kData{"data: "};
    if (line.starts_with(kData)) {
      if (line != "data: [DONE]") check_json(line.substr(kData.size()));
    } else {
      const bool is_field = line.starts_with("event: ") || line.starts_with("id: ");
      NIBBLE_CHECK(line.empty() || is_field || line == ":", "an event has '{}'", line);
    }
  }
}

struct Answer {
  int status;
  bool closes;
};

// Checks and returns the answers to these requests. With `is_whole`, each request must have an answer.
std::vector<Answer> check_answers(std::string_view bytes, const std::vector<SeenRequest>& seen,
                                  bool is_whole) {
  std::vector<Answer> answers;
  while (!bytes.empty()) {
    const bool is_head = answers.size() < seen.size() && seen[answers.size()].method == "HEAD";
    http::response_parser<http::string_body> parser;
    parser.eager(true);
    parser.skip(is_head);
    boost::system::error_code error;
    bytes.remove_prefix(parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error));
    if (!error && !parser.is_done()) parser.put_eof(error);
    if (!is_whole && (error == http::error::need_more || error == http::error::partial_message)) break;
    NIBBLE_CHECK(!error && parser.is_done(), "an answer is no HTTP: {}", error.message());
    const auto& answer = parser.get();
    // 501 is allowed for other engines' endpoints and for content codings, 505 for other HTTP versions.
    NIBBLE_CHECK(answer.result_int() < 500 || answer.result() == http::status::not_implemented ||
                     answer.result() == http::status::http_version_not_supported,
                 "{}", answer.body());
    if (answer.result() == http::status::continue_) continue;
    NIBBLE_CHECK(answers.size() < seen.size(), "there are more answers than requests");
    if (!is_head && answer[http::field::content_type] == "application/json") check_json(answer.body());
    if (answer[http::field::content_type] == "text/event-stream") check_events(answer.body());
    answers.push_back({static_cast<int>(answer.result_int()), !parser.keep_alive()});
  }
  NIBBLE_CHECK(!is_whole || answers.size() == seen.size(), "{} requests have {} answers", seen.size(),
               answers.size());
  return answers;
}

// Checks that the server received the requests that a strict reader finds, up to the point where it closed
// the connection. One more request is allowed if the server refused it.
void check_requests(const std::vector<SeenRequest>& seen, const test::FoundRequests& found) {
  for (size_t i = 0; i < seen.size(); ++i) {
    if (i >= found.requests.size()) {
      NIBBLE_CHECK(i == found.requests.size() && i + 1 == seen.size() && found.rest != test::Rest::kNothing &&
                       !seen[i].was_let_in && seen[i].status >= 400,
                   "the server found a request '{}' in what is none", seen[i].path);
      continue;
    }
    const test::FoundRequest& request = found.requests[i];
    NIBBLE_CHECK(
        seen[i].method == request.method && seen[i].path == request.path && seen[i].query == request.query,
        "the server saw '{} {}?{}' in place of '{} {}?{}'", seen[i].method, seen[i].path, seen[i].query,
        request.method, request.path, request.query);
    NIBBLE_CHECK(!seen[i].was_let_in || seen[i].body == request.body, "the server saw another body of '{}'",
                 request.path);
    const bool is_refused = seen[i].status == 403 || seen[i].status == kClientGone;
    NIBBLE_CHECK(request.is_let_in || (!seen[i].was_let_in && is_refused), "'{}' was let in", request.path);
  }
}

// Checks that every request was answered and every invalid rest refused, unless the server closed the
// connection. Only the last answer may close it.
void check_none_is_missing(const std::vector<Answer>& answers, const test::FoundRequests& found) {
  const bool has_closed = !answers.empty() && answers.back().closes;
  for (size_t i = 0; i + 1 < answers.size(); ++i)
    NIBBLE_CHECK(!answers[i].closes, "a connection that was to be closed went on");
  if (has_closed) return;
  NIBBLE_CHECK(answers.size() == found.requests.size(), "of {} requests {} were answered",
               found.requests.size(), answers.size());
  NIBBLE_CHECK(found.rest != test::Rest::kInvalid, "what is no request was not refused");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World& world = *new World;  // never destroyed: its engine has a thread
  static const test::HttpOracle oracle(kMaxHeaderBytes, kMaxBodyBytes, {"x", "localhost"});
  if (size < 2 || size > kMaxSize) return 0;
  const auto ending = static_cast<World::Ending>(data[0] % 3);
  const bool is_full = data[0] / 3 % 8 != 0;
  const std::string bytes = bytes_of(data + 2, size - 2);
  const size_t cut = bytes.size() * data[1] / 256;
  const std::string answer = world.send(std::string_view(bytes).substr(0, cut),
                                        std::string_view(bytes).substr(cut), ending, is_full);
  const test::FoundRequests found = oracle.read(bytes);
  const bool is_whole = ending == World::Ending::kWaits;
  check_requests(world.seen, found);
  const std::vector<Answer> answers = check_answers(answer, world.seen, is_whole);
  if (is_whole) check_none_is_missing(answers, found);
  return 0;
}
