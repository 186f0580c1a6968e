// The server with an engine whose model is a toy, so that a test can have it wait or fail. What it does with a real model
// is shown end to end (tests/e2e/test_serve.py).
#include "server/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "core/log.h"
#include "tests/engine/toy_backend.h"

namespace nibble::server {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::open(NIBBLE_SOURCE_DIR "/models/tiny-gpt-oss");
  return tokenizer;
}

// A step runs when the test lets it, or at any time.
class GatedBackend : public ToyBackend {
 public:
  using ToyBackend::ToyBackend;

  StepResult step(const Batch& batch) override {
    ++num_begun;
    if (is_gated) gate.acquire();
    return ToyBackend::step(batch);
  }

  std::atomic<int> num_begun{0};
  std::atomic<bool> is_gated{false};
  std::counting_semaphore<> gate{0};
};

class Connection {
 public:
  explicit Connection(uint16_t port) : handle_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{60, 0};
    ::setsockopt(handle_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(handle_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Connection() { close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void close() {
    if (handle_ >= 0) ::close(handle_);
    handle_ = -1;
  }
  void send(const std::string& bytes) const {
    EXPECT_EQ(::send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void post(const std::string& path, const std::string& body) const {
    send(fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}", path,
                     body.size(), body));
  }
  // All that comes until `end` has come, or the connection ends, or a minute passes.
  std::string read_until(std::string_view end) const {
    std::string text;
    for (char byte{}; text.find(end) == std::string::npos && ::recv(handle_, &byte, 1, 0) == 1;) text += byte;
    return text;
  }
  std::string read() const {
    std::string text;
    for (char bytes[4096];;) {
      const ssize_t num_bytes = ::recv(handle_, bytes, sizeof bytes, 0);
      if (num_bytes <= 0) return text;
      text.append(bytes, static_cast<size_t>(num_bytes));
    }
  }

 private:
  int handle_;
};

EngineOptions room_for(int max_batch_tokens, int max_sequences) {
  EngineOptions options;
  options.num_full_pages = 200;
  options.num_sliding_pages = 100;
  options.max_batch_tokens = max_batch_tokens;
  options.max_sequences = max_sequences;
  return options;
}

ServerOptions any_port() {
  ServerOptions options;
  options.model_id = "toy";
  options.address.port = 0;
  return options;
}

struct Running {
  explicit Running(ToyModel model, const EngineOptions& engine_options = room_for(512, 16),
                   const ServerOptions& options = any_port(), size_t max_choices = 100)
      : backend(engine_options, std::move(model)), server(options), engine(backend, tiny(), engine_options) {
    spdlog::set_level(spdlog::level::err);
    ServedModel served;
    served.tokenizer = &tiny();
    served.vocab = kToyVocab;
    served.max_context = backend.config().max_context;
    server.open(engine, served, max_choices);
    thread = std::thread([this] { was_complete = server.serve(engine); });
  }
  ~Running() {
    open_gate();
    if (!thread.joinable()) return;
    ::kill(::getpid(), SIGTERM);
    thread.join();
  }

  void open_gate() {
    backend.is_gated = false;
    backend.gate.release(1000);
  }

  std::string ask(const std::string& body) const {
    const Connection connection(server.port());
    connection.post("/v1/completions", body);
    return connection.read();
  }

  GatedBackend backend;
  Server server;
  Engine engine;
  std::thread thread;
  bool was_complete{false};
};

// One that says "!" for ever, and fails where the context begins with an X.
std::vector<float> model_with_a_fault(std::span<const TokenId> context) {
  static const TokenId x = tiny().encode("X", SpecialTokens::kOrdinary)[0];
  if (context.front() == x) throw std::runtime_error("the device is on fire");
  std::vector<float> logits(kToyVocab, 0.0f);
  logits[0] = 10;
  return logits;
}

TEST(Server, AHeadIsAnsweredWithoutABodyAndTheConnectionGoesOn) {
  Running running(model_with_a_fault, room_for(64, 1));
  const Connection connection(running.server.port());
  connection.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\nHEAD /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n");
  connection.send("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answers = connection.read();
  const size_t second = answers.find("HTTP/1.1 405 "), third = answers.rfind("HTTP/1.1 200 ");
  ASSERT_THAT(answers, StartsWith("HTTP/1.1 200 "));
  ASSERT_LT(second, third);
  EXPECT_THAT(answers.substr(0, second), EndsWith("Content-Length: 16\r\n\r\n"));
  EXPECT_THAT(answers.substr(second, third - second), EndsWith("\r\n\r\n"));
  EXPECT_THAT(answers.substr(third), EndsWith("\r\n\r\n{\"status\":\"ok\"}\n"));
}

TEST(Server, AnEngineFaultFailsTheRequestsOfItsStepAndServingGoesOn) {
  Running running(model_with_a_fault, room_for(512, 1));
  running.backend.is_gated = true;
  const Connection touched(running.server.port()), waiting(running.server.port());
  touched.post("/v1/completions", R"({"prompt": "X marks the spot", "max_tokens": 4})");
  while (running.backend.num_begun == 0) std::this_thread::sleep_for(1ms);
  waiting.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})");
  running.open_gate();
  const std::string failed = touched.read();
  EXPECT_THAT(failed, StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(failed, HasSubstr("the model could not be run: the device is on fire"));
  EXPECT_THAT(failed, HasSubstr("\"type\":\"server_error\""));
  EXPECT_THAT(waiting.read(), HasSubstr("\"text\":\"!!!!\""));
  EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})"),
              HasSubstr("\"text\":\"!!!!\""));
  EXPECT_THAT(running.ask(R"({"prompt": "X", "stream": true})"),  // nothing was sent yet: an ordinary error
              StartsWith("HTTP/1.1 500 "));
  const std::string metrics = running.server.metrics().text(running.engine.state());
  EXPECT_THAT(metrics, HasSubstr("nibble:engine_faults_total{model_name=\"toy\"} 2\n"));
  EXPECT_THAT(metrics,
              HasSubstr("nibble:request_success_total{model_name=\"toy\",finished_reason=\"error\"} 2\n"));
}

TEST(Server, AFaultInAStreamThatHasBegunIsAnEventOfItsOwn) {
  std::atomic<int> num_tokens{0};
  Running running([&](std::span<const TokenId> context) {
    if (++num_tokens == 3) throw std::runtime_error("gone");
    return model_with_a_fault(context);
  });
  const std::string answer = running.ask(R"({"prompt": "abc", "stream": true, "temperature": 0})");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("\"text\":\"!\""));
  EXPECT_THAT(answer, HasSubstr("data: {\"error\":{\"message\":\"the model could not be run: gone\""));
  EXPECT_THAT(answer, HasSubstr("data: [DONE]"));
}

TEST(Server, AFaultInAStreamOfAResponseIsItsLastEvent) {
  std::atomic<int> num_tokens{0};
  Running running([&](std::span<const TokenId> context) {
    if (++num_tokens == 3) throw std::runtime_error("gone");
    return model_with_a_fault(context);
  });
  const Connection connection(running.server.port());
  connection.post("/v1/responses", R"({"input": "abc", "stream": true})");
  const std::string answer = connection.read();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("event: response.created\ndata: "));
  const std::string last = answer.substr(answer.rfind("event: "));
  EXPECT_THAT(last, StartsWith("event: response.failed\n"));
  EXPECT_THAT(last, HasSubstr("\"status\":\"failed\""));
  EXPECT_THAT(last, HasSubstr("\"message\":\"the model could not be run: gone\""));
}

TEST(Server, AStreamWithoutNewsSendsComments) {
  ServerOptions options = any_port();
  options.keep_alive = 20ms;
  Running running(model_with_a_fault, room_for(512, 16), options);
  running.backend.is_gated = true;
  const Connection connection(running.server.port());
  connection.post("/v1/completions", R"({"prompt": "abc", "stream": true, "max_tokens": 2})");
  const std::string before = connection.read_until(":\n\n\r\n3\r\n:\n\n\r\n");  // two, and nothing else
  EXPECT_THAT(before, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(before, EndsWith("\r\n\r\n3\r\n:\n\n\r\n3\r\n:\n\n\r\n"));
  running.open_gate();
  EXPECT_THAT(connection.read(), HasSubstr("data: [DONE]"));
}

TEST(Server, AClientThatGoesWhileItsPromptIsReadCostsOneStepMore) {
  // 100 steps of prompt, and room for one request alone.
  Running running(model_with_a_fault, room_for(4, 1), any_port(), 1);
  running.backend.is_gated = true;
  Connection connection(running.server.port());
  std::string prompt = "[0";
  for (int i = 1; i < 400; ++i) prompt += ",1";
  connection.post("/v1/completions", R"({"prompt": )" + prompt + "]}");
  running.backend.gate.release(2);
  while (running.backend.num_begun < 3) std::this_thread::sleep_for(1ms);
  EXPECT_THAT(running.ask(R"({"prompt": "a"})"), HasSubstr("Retry-After: "));
  connection.close();
  std::this_thread::sleep_for(1s);  // for the I/O thread to see it, while the step waits
  running.open_gate();
  std::string answer;
  do answer = running.ask(R"({"prompt": "a", "max_tokens": 1})");
  while (answer.find("429") != std::string::npos);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(running.backend.num_begun, 4);
}

TEST(Server, AClientThatGoesWhileItsRequestIsReadIsNotAnswered) {
  Running running(model_with_a_fault, room_for(512, 1), any_port(), 1);
  Connection connection(running.server.port());
  const std::string padding(4 << 20, 'x');
  connection.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 3000, "pad": ")" + padding + "\"}");
  connection.close();
  while (running.server.metrics().text(std::nullopt).find("status=\"499\"") == std::string::npos)
    std::this_thread::sleep_for(1ms);
  EXPECT_LT(running.backend.num_begun, 1000);
}

TEST(Server, EndsInTheMiddleOfEverything) {
  ServerOptions options = any_port();
  options.shutdown_timeout = 0s;
  Running running(model_with_a_fault, room_for(512, 1), options);
  running.backend.is_gated = true;
  std::vector<std::unique_ptr<Connection>> connections;
  const std::string padding(1 << 20, 'x');
  for (int i = 0; i < 20; ++i) {  // of which the later ones may still have to be read at the end
    connections.push_back(std::make_unique<Connection>(running.server.port()));
    connections.back()->post("/v1/completions",
                             R"({"prompt": "abc", "pad": ")" + (i < 3 ? "" : padding) + "\"}");
  }
  ::kill(::getpid(), SIGTERM);
  running.thread.join();
  EXPECT_FALSE(running.was_complete);
}

TEST(Server, WhoSendsNothingIsDisconnectedAndMakesRoomForOthers) {
  ServerOptions options = any_port();
  options.limits.max_connections = 1;
  options.limits.read_timeout = 1s;
  Running running(model_with_a_fault, room_for(512, 16), options);
  const Connection silent(running.server.port()), half(running.server.port()), other(running.server.port());
  half.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 10\r\n\r\n{");
  other.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 1})");
  EXPECT_THAT(other.read(), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(silent.read(), "");
  EXPECT_EQ(half.read(), "");
}

TEST(Server, WhatCanNotBeRunIsTheClientsFaultNotTheEngines) {
  EngineOptions small = room_for(512, 1);
  small.num_full_pages = 4;
  Running running(model_with_a_fault, small);
  const std::string answer = running.ask(R"({"prompt": "abc", "max_tokens": 1000})");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer, HasSubstr("pages of the KV cache"));
}

// Under TSan this is where the threads of server and engine meet (./test).
TEST(Server, ManyClientsAreAnsweredBesideSomeThatGo) {
  Running running(model_with_a_fault, room_for(64, 4));
  std::vector<std::thread> clients;
  std::atomic<int> num_right{0};
  for (int client = 0; client < 8; ++client)
    clients.emplace_back([&, client] {
      for (int i = 0; i < 10; ++i) {
        const bool is_stream = (i + client) % 2 == 0;
        const std::string body =
            fmt::format(R"({{"prompt": "abc", "max_tokens": 6, "temperature": 0, "stream": {}}})", is_stream);
        {
          Connection goes(running.server.port());
          goes.post("/v1/completions", body);
          if (i % 3 == 0) goes.read_until("data: ");
        }
        Connection asks(running.server.port());
        asks.send("GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n");
        const std::string answer = running.ask(body);
        const bool is_right = is_stream ? answer.find("data: [DONE]") != std::string::npos
                                        : answer.find("\"text\":\"!!!!!!\"") != std::string::npos;
        num_right += is_right && asks.read().starts_with("HTTP/1.1 200 ");
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(num_right, 80);
}

}  // namespace
}  // namespace nibble::server
