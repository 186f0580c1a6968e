// Tests the server over sockets, with an engine whose toy model can be made to wait or to fail. tests/e2e/test_serve.py tests it
// with a real model.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "core/log.h"
#include "tests/engine/toy_backend.h"
#include "tests/folders.h"
#include "tests/server/connection.h"

namespace nibble::server {
namespace {

using namespace std::chrono_literals;
using test::any_port;
using test::Connection;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss"));
  return tokenizer;
}

// Lets steps run one by one as the test allows, or all of them.
class GatedBackend : public ToyBackend {
 public:
  using ToyBackend::ToyBackend;

  StepResult step(const Batch& batch) override {
    ++num_begun;
    if (is_gated) gate.acquire();
    return ToyBackend::step(batch);
  }
  std::vector<Counter> counters() const override {
    if (!counts_steps) return {};
    return {{"steps one way", "one_way", static_cast<size_t>(num_begun)}, {"steps another way", "other", 0}};
  }

  std::atomic<bool> counts_steps{false};
  std::atomic<int> num_begun{0};
  std::atomic<bool> is_gated{false};
  std::counting_semaphore<> gate{0};
};

EngineOptions room_for(int max_batch_tokens, int max_sequences) {
  EngineOptions options;
  options.num_full_pages = 200;
  options.num_sliding_pages = 100;
  options.max_batch_tokens = max_batch_tokens;
  options.max_sequences = max_sequences;
  return options;
}

struct Running {
  explicit Running(ToyModel model, const EngineOptions& engine_options = room_for(512, 16),
                   const ServerOptions& options = any_port(), size_t max_choices = 100)
      : backend(engine_options, std::move(model)),
        server(options),
        engine(backend, tiny(), measured(engine_options)) {
    spdlog::set_level(spdlog::level::err);
    ServedModel served;
    served.tokenizer = &tiny();
    served.vocab = kToyVocab;
    served.stop_tokens = {tiny().special("<|return|>").value()};
    served.max_context = backend.config().max_context;
    served.setup = {.backend = "toy",
                    .device = "a test",
                    .kernels = {{"attend", "BF16", "F32", "any", "toy::attend", "the only one"}},
                    .memory = {{"KV cache", 1000}},
                    .memory_budget = 3000};
    server.open(engine, served, max_choices);
    thread = std::thread([this] { was_complete = server.serve(engine); });
  }
  ~Running() {
    open_gate();
    if (!thread.joinable()) return;
    ::kill(::getpid(), SIGTERM);
    thread.join();
  }

  EngineOptions measured(EngineOptions given) {
    given.on_step = [this](const StepReport& report) { server.metrics().observe_step(report); };
    return given;
  }

  void open_gate() {
    backend.is_gated = false;
    backend.gate.release(1000);
  }

  void wait_until_someone_has_gone() {
    while (server.metrics().text(std::nullopt).find("status=\"499\"") == std::string::npos)
      std::this_thread::sleep_for(1ms);
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

// A model that answers "!" for ever, and throws if the context begins with an X.
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

TEST(Server, AnAnswerRepeatsNoMoreOfItsPromptsThanABodyMayHave) {
  ServerOptions options = any_port();
  options.limits.max_body_bytes = 320;
  Running running(model_with_a_fault, room_for(64, 16), options);
  const std::string prompt(20, 'x');
  const auto answer = [&](int n, const std::string& echo) {
    return running.ask(fmt::format(R"({{"prompt": ["{}", "{}"], "n": {}, "max_tokens": 1, "echo": {}}})",
                                   prompt, prompt, n, echo));
  };
  EXPECT_THAT(answer(8, "true"), StartsWith("HTTP/1.1 200 "));  // 2 * 8 * 20 bytes
  const std::string refusal = answer(9, "true");
  EXPECT_THAT(refusal, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(refusal, HasSubstr("repeat 360 bytes of prompts, at most 320 are accepted"));
  EXPECT_THAT(refusal, HasSubstr(R"("param":"echo")"));
  EXPECT_THAT(answer(9, "false"), StartsWith("HTTP/1.1 200 "));
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
  EXPECT_THAT(running.ask(R"({"prompt": "X", "stream": true})"),  // no event was sent yet: a plain error
              StartsWith("HTTP/1.1 500 "));
  const std::string metrics = running.server.metrics().text(running.engine.state());
  EXPECT_THAT(metrics, HasSubstr("nibble:engine_faults_total{model_name=\"toy\"} 2\n"));
  EXPECT_THAT(metrics,
              HasSubstr("nibble:request_success_total{model_name=\"toy\",finished_reason=\"error\"} 2\n"));
}

TEST(Server, StepsAreCountedByHowTheBackendLaunchedThemWhereItHasSeveralWays) {
  Running running(model_with_a_fault, room_for(64, 1));
  const auto metrics_after_an_answer = [&] {
    EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})"),
                HasSubstr("\"text\":\"!!!!\""));
    while (running.engine.state().num_running > 0) std::this_thread::sleep_for(1ms);  // the last step counts
    return running.server.metrics().text(running.engine.state());
  };
  EXPECT_THAT(metrics_after_an_answer(), testing::Not(HasSubstr("backend_steps_total")));
  running.backend.counts_steps = true;
  const std::string metrics = metrics_after_an_answer();
  const auto line = [](const char* launch, int count) {
    return fmt::format("nibble:backend_steps_total{{model_name=\"toy\",launch=\"{}\"}} {}\n", launch, count);
  };
  EXPECT_THAT(metrics, HasSubstr("# TYPE nibble:backend_steps_total counter\n"));
  EXPECT_THAT(metrics, HasSubstr(line("one_way", running.backend.num_begun)));
  EXPECT_THAT(metrics, HasSubstr(line("other", 0)));
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

TEST(Server, AFormThatContradictsWhatIsBannedIsTheRequestsFaultAlsoInTheMiddleOfAnAnswer) {
  Running running(model_with_a_fault);
  const auto asked = [](const char* stream) {
    return fmt::format(
        R"({{"prompt": "abc", "regex": "!?[ab]", "allowed_token_ids": [{}], "temperature": 0, "stream": {}}})",
        tiny().encode("!", SpecialTokens::kOrdinary)[0], stream);
  };
  const std::string refusal = running.ask(asked("false"));
  EXPECT_THAT(refusal, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(refusal, HasSubstr("leave no token at position 2: ban less with bad_words, allowed_token_ids"));
  EXPECT_THAT(refusal, HasSubstr(R"("type":"invalid_request_error","param":"regex")"));
  const std::string stream = running.ask(asked("true"));
  EXPECT_THAT(stream, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(stream, HasSubstr(R"("text":"!")"));
  EXPECT_THAT(stream, HasSubstr(R"("type":"invalid_request_error","param":"regex")"));
  EXPECT_THAT(stream, HasSubstr("data: [DONE]"));
  EXPECT_EQ(running.engine.state().num_faults, 0u);
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
  const std::string before = connection.read_until(":\n\n\r\n3\r\n:\n\n\r\n");  // two comments
  EXPECT_THAT(before, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(before, EndsWith("\r\n\r\n3\r\n:\n\n\r\n3\r\n:\n\n\r\n"));
  running.open_gate();
  EXPECT_THAT(connection.read(), HasSubstr("data: [DONE]"));
}

TEST(Server, AClientThatGoesWhileItsPromptIsReadCostsOneStepMore) {
  // The prompt takes 100 steps, and there is room for one request only.
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
  running.wait_until_someone_has_gone();  // while the step waits
  running.open_gate();
  std::string answer;
  do answer = running.ask(R"({"prompt": "a", "max_tokens": 1})");
  while (answer.starts_with("HTTP/1.1 429 "));  // an id or a time may hold these digits too
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(running.backend.num_begun, 4);
}

TEST(Server, AClientThatGoesWhileItsRequestIsReadIsNotAnswered) {
  Running running(model_with_a_fault, room_for(512, 1), any_port(), 1);
  Connection connection(running.server.port());
  const std::string padding(4 << 20, 'x');
  connection.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 3000, "pad": ")" + padding + "\"}");
  connection.close();
  running.wait_until_someone_has_gone();
  EXPECT_LT(running.backend.num_begun, 1000);
}

constexpr size_t kMega{1 << 20};
constexpr const char* kGoOn{"HTTP/1.1 100 Continue\r\n\r\n"};

ServerOptions room_for_three_bodies() {
  ServerOptions options = any_port();
  options.limits.max_body_bytes = options.limits.max_bodies_bytes = 3 * kMega;
  return options;
}

// Takes the whole budget for bodies, as soon as the I/O thread has freed it; fails if something holds a part of it for ever.
void expect_all_room_for_bodies(const Running& running) {
  std::string answer;
  for (int i = 0; i < 1000 && answer != kGoOn; ++i) {
    std::this_thread::sleep_for(10ms);
    answer = Connection(running.server.port()).announce("/tokenize", 3 * kMega);
  }
  EXPECT_EQ(answer, kGoOn);
}

std::string completion_of(size_t num_bytes) {
  const std::string begin = R"({"prompt": "abc", "max_tokens": 4, "temperature": 0, "pad": ")";
  return begin + std::string(num_bytes - begin.size() - 2, 'x') + "\"}";
}

TEST(Server, BodiesShareOneBoundAndShortOnesAreTakenBesideLargeOnes) {
  Running running(model_with_a_fault, room_for(512, 16), room_for_three_bodies());
  const uint16_t port = running.server.port();
  const Connection slow(port), wrong(port);
  auto goes = std::make_unique<Connection>(port);
  for (const Connection* writer : std::initializer_list<const Connection*>{&slow, &wrong, goes.get()}) {
    EXPECT_EQ(writer->announce("/v1/completions", kMega), kGoOn);
    writer->send("{");
  }
  const Connection refused(port);
  const std::string answer = refused.announce("/v1/completions", kMega);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(answer, HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(refused.read(),
              HasSubstr("the bodies of other requests fill the 3145728 bytes that there are"));
  EXPECT_THAT(running.ask(completion_of(16 << 10)), HasSubstr("\"text\":\"!!!!\""));
  EXPECT_THAT(running.ask(completion_of((16 << 10) + 1)), StartsWith("HTTP/1.1 429 "));

  goes.reset();
  wrong.send("nonsense" + std::string(kMega - 9, ' '));
  EXPECT_THAT(wrong.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  slow.send(completion_of(kMega).substr(1));
  EXPECT_THAT(slow.read_until("finish_reason"), HasSubstr("\"text\":\"!!!!\""));
  expect_all_room_for_bodies(running);
}

std::string in_a_chunk(const std::string& path, const std::string& body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: "
      "chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n",
      path, body.size(), body);
}

TEST(Server, ABodyInChunksIsCountedAsItComes) {
  Running running(model_with_a_fault, room_for(512, 16), room_for_three_bodies());
  const uint16_t port = running.server.port();
  running.backend.is_gated = true;
  const Connection first(port), second(port), small(port);
  // The body of a request to /v1/responses stays counted until the response ends.
  first.send(in_a_chunk("/v1/responses", R"({"input": "abc", "max_output_tokens": 4, "pad": ")" +
                                             std::string(2 * kMega, 'x') + "\"}"));
  while (running.backend.num_begun == 0) std::this_thread::sleep_for(1ms);
  second.send(in_a_chunk("/v1/completions", completion_of(2 * kMega)));
  EXPECT_THAT(second.read(), StartsWith("HTTP/1.1 429 "));
  small.send(in_a_chunk("/v1/completions", completion_of(16 << 10)));
  running.open_gate();
  EXPECT_THAT(small.read(), HasSubstr("\"text\":\"!!!!\""));
  EXPECT_THAT(first.read(), StartsWith("HTTP/1.1 200 "));
  expect_all_room_for_bodies(running);
}

TEST(Server, AConversationThatIsGoneOnWithIsCountedAsABody) {
  ServerOptions options = room_for_three_bodies();
  options.limits.max_bodies_bytes = kMega;
  Running running(model_with_a_fault, room_for(512, 16), options);
  const auto respond = [&](const std::string& more) {
    const Connection connection(running.server.port());
    connection.post("/v1/responses", R"({"max_output_tokens": 4, )" + more + "}");
    return connection.read();
  };
  // Reasoning of finished turns is stored, but is not in the prompt.
  const std::string told =
      respond(R"("input": [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": ")" +
              std::string(kMega / 2, 'x') +
              R"("}]}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "abc"}])");
  ASSERT_THAT(told, StartsWith("HTTP/1.1 200 "));
  const std::string id = told.substr(told.find("resp_"), std::string("resp_").size() + 24);
  const std::string next = R"("input": "abc", "previous_response_id": ")" + id + "\"";
  EXPECT_THAT(respond(next), StartsWith("HTTP/1.1 200 "));
  running.backend.is_gated = true;
  const Connection first(running.server.port());
  first.post("/v1/responses", "{" + next + "}");
  while (running.server.metrics()
             .text(running.engine.state())
             .find("num_requests_running{model_name=\"toy\"} 1") == std::string::npos)
    std::this_thread::sleep_for(1ms);
  EXPECT_THAT(respond(next), StartsWith("HTTP/1.1 429 "));
}

TEST(Server, ABodyIsHeldNoLongerThanItTakesToReadIt) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "abc"}], "max_tokens": 4, "pad": ")";
  for (const auto& [path, body] :
       {std::pair("/v1/completions", completion_of(3 * kMega)),
        std::pair("/v1/chat/completions", chat + std::string(2 * kMega, 'x') + "\"}")}) {
    Running running(model_with_a_fault, room_for(512, 16), room_for_three_bodies());
    running.backend.is_gated = true;
    const Connection connection(running.server.port());
    connection.post(path, body);
    while (running.backend.num_begun == 0) std::this_thread::sleep_for(1ms);
    expect_all_room_for_bodies(running);
    running.open_gate();
    EXPECT_THAT(connection.read(), StartsWith("HTTP/1.1 200 "));
  }
}

TEST(Server, WhatAChunkHasBesideItsDataIsBounded) {
  Running running(model_with_a_fault, room_for(512, 16));
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string trailer = "0\r\n";
  for (int i = 0; i < 20000; ++i) trailer += "a: b\r\n";
  for (const std::string& flood : {"5;a=" + std::string(100'000, 'x'), trailer}) {
    const Connection connection(running.server.port());
    connection.send(head + flood);
    EXPECT_THAT(connection.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  }
}

TEST(Server, WhoDoesNotTakeTheAnswerIsLeft) {
  ServerOptions options = any_port();
  options.limits.write_timeout = 1s;
  Running running(model_with_a_fault, room_for(512, 16), options);
  const Connection connection(running.server.port());
  // The text of a million long tokens is more than the kernel buffers for a connection.
  TokenId longest{0};
  for (TokenId token = 0; token < tiny().num_tokens(); ++token)
    if (!tiny().is_special(token) && tiny().bytes(token).size() > tiny().bytes(longest).size())
      longest = token;
  ASSERT_GE(tiny().bytes(longest).size(), 12u);
  std::string tokens = fmt::to_string(longest);
  for (int i = 1; i < 1'000'000; ++i) tokens += fmt::format(",{}", longest);
  connection.post("/detokenize", "{\"tokens\": [" + tokens + "]}");
  const std::string left =
      "nibble:http_requests_total{model_name=\"toy\",endpoint=\"/detokenize\",status=\"499\"} 1\n";
  std::string metrics;
  for (int i = 0; i < 3000 && metrics.find(left) == std::string::npos; ++i) {
    std::this_thread::sleep_for(10ms);
    metrics = running.server.metrics().text(std::nullopt);
  }
  EXPECT_THAT(metrics, HasSubstr(left));
}

TEST(Server, SaysThatItIsLoadingAndHasAnIdForEachAnswer) {
  const Server server(any_port());
  const auto ask = [&](const std::string& request) {
    const Connection connection(server.port());
    connection.send(request);
    return connection.read();
  };
  const std::string health = ask("GET /health HTTP/1.1\r\nX-Request-Id: mine-7\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(health, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(health, HasSubstr("\r\nX-Request-Id: mine-7\r\n"));
  EXPECT_THAT(health, EndsWith("{\"status\":\"loading\"}\n"));
  EXPECT_THAT(ask("GET /live HTTP/1.1\r\nConnection: close\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  const std::string refused = ask(
      "POST /v1/completions HTTP/1.1\r\nX-Request-Id: a b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(refused, HasSubstr("\r\nX-Request-Id: req-"));  // an id that could garble a log is replaced
  EXPECT_THAT(refused, HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_THAT(
      refused,
      HasSubstr("\"message\":\"the model is loading; try again later\",\"type\":\"unavailable_error\""));
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST(Server, TellsWhatItDoesAndHowItWasSetUp) {
  Running running(model_with_a_fault, room_for(512, 1));
  const auto status = [&] {
    const Connection connection(running.server.port());
    connection.send("GET /status.json HTTP/1.1\r\nConnection: close\r\n\r\n");
    return connection.read();
  };
  EXPECT_THAT(status(), HasSubstr("\"answers\":[]"));
  running.backend.is_gated = true;
  const Connection runs(running.server.port()), waits(running.server.port());
  runs.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})");
  while (running.backend.num_begun == 0) std::this_thread::sleep_for(1ms);
  waits.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})");
  while (status().find("\"tokens\":0},{") == std::string::npos) std::this_thread::sleep_for(1ms);
  running.backend.gate.release(1);
  std::string told;
  do told = status();
  while (told.find("\"waiting\":1") == std::string::npos || told.find("\"tokens\":1}") == std::string::npos ||
         told.find("\"steps\":1,") == std::string::npos);
  EXPECT_THAT(told, HasSubstr("\"state\":\"ready\""));
  EXPECT_THAT(told, HasSubstr("\"engine\":{\"running\":1,"));
  EXPECT_THAT(told, HasSubstr("\"generated_tokens\":1,"));
  EXPECT_THAT(told, HasSubstr("\"step_rows\":2,"));  // the tokens of "abc"
  EXPECT_THAT(told, testing::ContainsRegex(
                        "\"answers\":.\\{\"seconds\":[0-9.e-]+,\"tokens\":1\\},\\{\"seconds\":[0-9.e-]+,"
                        "\"tokens\":0\\}"));
  EXPECT_THAT(told,
              HasSubstr(R"("setup":{"backend":"toy","device":"a test","kernels":[{"operation":"attend",)"
                        R"("weights":"BF16","activations":"F32","rows":"any","kernel":"toy::attend",)"
                        R"("reason":"the only one"}],"memory":[{"what":"KV cache","bytes":1000}],)"
                        R"("memory_budget":3000})"));
}

TEST(Server, EndsInTheMiddleOfEverything) {
  ServerOptions options = any_port();
  options.shutdown_timeout = 0s;
  Running running(model_with_a_fault, room_for(512, 1), options);
  running.backend.is_gated = true;
  std::vector<std::unique_ptr<Connection>> connections;
  const std::string padding(1 << 20, 'x');
  for (int i = 0; i < 20; ++i) {  // at the end some may still wait to be parsed
    connections.push_back(std::make_unique<Connection>(running.server.port()));
    connections.back()->post("/v1/completions",
                             R"({"prompt": "abc", "pad": ")" + (i < 3 ? "" : padding) + "\"}");
  }
  while (running.backend.num_begun == 0)
    std::this_thread::sleep_for(1ms);  // else there may be nothing to wait for
  ::kill(::getpid(), SIGTERM);
  running.thread.join();
  EXPECT_FALSE(running.was_complete);
}

TEST(Server, TakesRequestsInTheDelayAfterASignalAndSaysThatItIsNotReady) {
  ServerOptions options = any_port();
  options.shutdown_delay = 1s;
  Running running(model_with_a_fault, room_for(512, 16), options);
  const auto health = [&] {
    const Connection connection(running.server.port());
    connection.send("GET /health HTTP/1.1\r\nConnection: close\r\n\r\n");
    return connection.read();
  };
  EXPECT_THAT(health(), StartsWith("HTTP/1.1 200 "));
  ::kill(::getpid(), SIGTERM);
  std::string told;
  do told = health();
  while (told.starts_with("HTTP/1.1 200 "));
  EXPECT_THAT(told, EndsWith("{\"status\":\"draining\"}\n"));
  EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})"),
              StartsWith("HTTP/1.1 200 "));
  running.thread.join();
  EXPECT_TRUE(running.was_complete);
}

TEST(Server, ASecondSignalEndsInTheDelay) {
  ServerOptions options = any_port();
  options.shutdown_delay = 1h;
  Running running(model_with_a_fault, room_for(512, 16), options);
  ::kill(::getpid(), SIGTERM);
  ::kill(::getpid(), SIGINT);
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

// ./test runs this under TSan, since here the threads of server and engine meet.
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
