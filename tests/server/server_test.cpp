// Tests the server over sockets. Its engine runs a toy model that can be made to wait or fail.
// tests/e2e/test_serve.py tests the server with a real model.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "core/text/json.h"
#include "tests/server/toy_server.h"

namespace nibble::server {
namespace {

using namespace std::chrono_literals;
using test::any_port;
using test::Connection;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Server, AHeadIsAnsweredWithoutABodyAndTheConnectionGoesOn) {
  Running running(model_with_a_fault, room_for(64, 1));
  const Connection connection(running.server.port());
  connection.send(
      "HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /v1/completions HTTP/1.1\r\nHost: "
      "localhost\r\n\r\n");
  connection.send("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
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
  // 2 prompts of 20 bytes, repeated in 8 choices each: 320 bytes
  EXPECT_THAT(answer(8, "true"), StartsWith("HTTP/1.1 200 "));
  const std::string refusal = answer(9, "true");
  EXPECT_THAT(refusal, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(refusal, HasSubstr("repeat 360 bytes of prompts, but at most 320 are accepted"));
  EXPECT_THAT(refusal, HasSubstr(R"("param":"echo")"));
  EXPECT_THAT(answer(9, "false"), StartsWith("HTTP/1.1 200 "));
}

TEST(Server, AnEngineFaultFailsTheRequestsOfItsStepAndServingGoesOn) {
  Running running(model_with_a_fault, room_for(512, 1));
  running.backend.is_gated = true;
  const Connection touched(running.server.port()), waiting(running.server.port());
  touched.post("/v1/completions", R"({"prompt": "X marks the spot", "max_tokens": 4})");
  running.wait_for_step(1);
  waiting.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})");
  running.open_gate();
  const std::string failed = touched.read();
  EXPECT_THAT(failed, StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(failed, HasSubstr("the model could not be run: the device is on fire"));
  EXPECT_THAT(failed, HasSubstr("\"type\":\"server_error\""));
  EXPECT_THAT(waiting.read(), HasSubstr("\"text\":\"!!!!\""));
  EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})"),
              HasSubstr("\"text\":\"!!!!\""));
  // No event was sent yet, so the error is a plain response.
  EXPECT_THAT(running.ask(R"({"prompt": "X", "stream": true})"), StartsWith("HTTP/1.1 500 "));
  const std::string metrics = running.server.metrics().text(running.engine.state());
  EXPECT_THAT(metrics, HasSubstr("nibble:engine_faults_total{model_name=\"toy\"} 2\n"));
  EXPECT_THAT(metrics,
              HasSubstr("nibble:request_success_total{model_name=\"toy\",finished_reason=\"error\"} 2\n"));
}

TEST(Server, CountsStepsByWayOfLaunchAndLaunchesByKernelIfTheBackendDoes) {
  Running running(model_with_a_fault, room_for(64, 1));
  const auto metrics_after_an_answer = [&] {
    EXPECT_THAT(running.ask(R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})"),
                HasSubstr("\"text\":\"!!!!\""));
    // Waits until the last step is counted too.
    test::wait_until([&] { return running.engine.state().num_running == 0; });
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
  EXPECT_THAT(metrics,
              HasSubstr(fmt::format(
                  "nibble:backend_kernel_launches_total{{model_name=\"toy\",kernel=\"attend\"}} {}\n",
                  2 * running.backend.num_begun)));
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

// A model that reasons without end, about 5 ms per token.
std::vector<float> reasoning_model(std::span<const TokenId> context) {
  static const TokenId start = tiny().encode("<|start|>", SpecialTokens::kRecognise)[0];
  static const std::vector<TokenId> header =
      tiny().encode("assistant<|channel|>analysis<|message|>", SpecialTokens::kRecognise);
  const auto begin = std::find(context.rbegin(), context.rend(), start);
  const auto num_said = static_cast<size_t>(begin - context.rbegin());
  const bool is_in_header = num_said < header.size();
  if (!is_in_header) std::this_thread::sleep_for(5ms);
  std::vector<float> logits(kToyVocab, 0.0f);
  logits[static_cast<size_t>(is_in_header ? header[num_said] : 0)] = 100;
  return logits;
}

TEST(Server, AStreamOfHiddenReasoningShowsThatItGoesOn) {
  ServerOptions options = any_port();
  options.keep_alive = 20ms;
  Running running(reasoning_model, room_for(512, 16), options);
  const std::string messages{R"("messages": [{"role": "user", "content": "Hi"}])"};
  struct Case {
    const char* path;
    std::string body, sign;
  };
  const Case cases[]{
      {"/v1/chat/completions",
       messages + R"(, "stream": true, "max_tokens": 150, "include_reasoning": false)", "\r\n:\n\n"},
      {"/v1/messages", messages + R"(, "stream": true, "max_tokens": 150)", "event: ping\n"},
      {"/api/chat", messages + R"(, "think": false, "options": {"num_predict": 150})",
       R"("content":""},"done":false)"}};
  for (const Case& one : cases) {
    const Connection connection(running.server.port());
    connection.post(one.path, "{" + one.body + "}");
    const std::string answer = connection.read();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(answer, Not(HasSubstr("!"))) << "the reasoning was shown";
    int num_signs = 0;
    for (size_t at = answer.find(one.sign); at != std::string::npos; at = answer.find(one.sign, at + 1))
      ++num_signs;
    EXPECT_GE(num_signs, 4) << one.path;  // 150 tokens take at least 700 ms
  }
}

TEST(Server, DurationsOfOllamasApiDoNotIncludeTheQueue) {
  Running running(model_with_a_fault, room_for(64, 1));
  running.backend.is_gated = true;
  const Connection first(running.server.port()), second(running.server.port());
  first.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 2})");
  running.wait_for_step(1);
  second.post("/api/generate",
              R"({"prompt": "abc", "raw": true, "stream": false, "options": {"num_predict": 1}})");
  running.wait_for_answers(2);
  std::this_thread::sleep_for(300ms);
  running.open_gate();
  const std::string answer = second.read();
  const Json last = Json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  EXPECT_GE(last["total_duration"].get<int64_t>(), 300'000'000);
  EXPECT_LT(last["prompt_eval_duration"].get<int64_t>(), 300'000'000);
  EXPECT_GT(last["prompt_eval_duration"].get<int64_t>(), 0);
  // One step made the only token.
  EXPECT_EQ(last["eval_duration"], last["prompt_eval_duration"]);
}

TEST(Server, AClientThatGoesWhileItsPromptIsReadCostsOneStepMore) {
  // The prompt takes 100 steps, and only one request may run at a time.
  Running running(model_with_a_fault, room_for(4, 1), any_port(), 1);
  running.backend.is_gated = true;
  Connection connection(running.server.port());
  std::string prompt = "[0";
  for (int i = 1; i < 400; ++i) prompt += ",1";
  connection.post("/v1/completions", R"({"prompt": )" + prompt + "]}");
  running.backend.gate.release(2);
  running.wait_for_step(3);
  EXPECT_THAT(running.ask(R"({"prompt": "a"})"), HasSubstr("Retry-After: "));
  connection.close();
  running.wait_until_someone_has_gone();  // while the step is blocked
  running.open_gate();
  std::string answer;
  test::wait_until([&] {
    answer = running.ask(R"({"prompt": "a", "max_tokens": 1})");
    // Compares only the status, because ids and times may contain these digits.
    return !answer.starts_with("HTTP/1.1 429 ");
  });
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

TEST(Server, WhoDoesNotTakeTheAnswerIsLeft) {
  ServerOptions options = any_port();
  options.limits.write_timeout = 1s;
  Running running(model_with_a_fault, room_for(512, 16), options);
  const Connection connection(running.server.port());
  // The text of a million longest tokens is more than the kernel buffers for a connection.
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

TEST(Server, SaysHowMuchOfTheModelIsLoaded) {
  Server server(any_port());
  server.report_loading(43, 100);
  const Connection connection(server.port());
  connection.send("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string health = connection.read();
  EXPECT_THAT(health, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(health, EndsWith("{\"status\":\"loading\",\"percent\":43}\n"));
}

TEST(Server, SaysThatItIsLoadingAndHasAnIdForEachAnswer) {
  const Server server(any_port());
  const auto ask = [&](const std::string& request) {
    const Connection connection(server.port());
    connection.send(request);
    return connection.read();
  };
  const std::string health =
      ask("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine-7\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(health, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(health, HasSubstr("\r\nX-Request-Id: mine-7\r\n"));
  EXPECT_THAT(health, EndsWith("{\"status\":\"loading\"}\n"));
  EXPECT_THAT(ask("GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
  const std::string refused =
      ask("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a b\r\nContent-Length: "
          "0\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503 "));
  // An id that could corrupt a log is replaced by the server's own.
  EXPECT_THAT(refused, HasSubstr("\r\nX-Request-Id: req-"));
  EXPECT_THAT(refused, HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_THAT(
      refused,
      HasSubstr("\"message\":\"the model is loading; try again later\",\"type\":\"unavailable_error\""));
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST(Server, ReportsItsStateAndItsSetup) {
  Running running(model_with_a_fault, room_for(512, 1));
  const auto status = [&] {
    const Connection connection(running.server.port());
    connection.send("GET /status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return connection.read();
  };
  EXPECT_THAT(status(), HasSubstr("\"answers\":[]"));
  running.backend.is_gated = true;
  const Connection runs(running.server.port()), waits(running.server.port());
  runs.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})");
  running.wait_for_step(1);
  waits.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})");
  test::wait_until([&] { return status().find("\"tokens\":0},{") != std::string::npos; });
  running.backend.gate.release(1);
  std::string told;
  test::wait_until([&] {
    told = status();
    return told.find("\"waiting\":1") != std::string::npos &&
           told.find("\"tokens\":1}") != std::string::npos && told.find("\"steps\":1,") != std::string::npos;
  });
  EXPECT_THAT(told, HasSubstr("\"state\":\"ready\""));
  EXPECT_THAT(told, HasSubstr("\"engine\":{\"running\":1,"));
  EXPECT_THAT(told, HasSubstr("\"generated_tokens\":1,"));
  EXPECT_THAT(told, HasSubstr("\"step_rows\":2,"));  // the rows are the tokens of "abc"
  EXPECT_THAT(told, testing::ContainsRegex(
                        "\"answers\":.\\{\"seconds\":[0-9.e-]+,\"tokens\":1\\},\\{\"seconds\":[0-9.e-]+,"
                        "\"tokens\":0\\}"));
  EXPECT_THAT(
      told,
      HasSubstr(
          R"("setup":{"backend":"toy","device":"a test","num_devices":1,"kernels":[{"operation":"attend",)"
          R"("weights":"BF16","activations":"F32","rows":"any","kernel":"toy::attend",)"
          R"("reason":"the only one"}],"memory":[{"what":"KV cache","bytes":1000}],)"
          R"("memory_budget":3000})"));
}

nlohmann::json status_of(const Running& running) {
  const Connection connection(running.server.port());
  connection.send("GET /status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string reply = connection.read();
  return nlohmann::json::parse(reply.substr(reply.find("\r\n\r\n")));
}

TEST(Server, ReportsWhenARequestReachedEachStage) {
  Running running(model_with_a_fault, room_for(512, 1));
  EXPECT_TRUE(status_of(running)["requests"].empty());
  running.ask(R"({"prompt": "abc", "temperature": 9})");  // refused before it reaches the engine
  running.ask(R"({"prompt": "abc", "max_tokens": 4, "temperature": 0})");
  running.ask(R"({"prompt": "abc", "max_tokens": 2, "temperature": 0, "stream": true})");
  const nlohmann::json requests = status_of(running)["requests"];
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0]["output_tokens"], 2);  // the newest request is first
  EXPECT_EQ(requests[1]["output_tokens"], 4);
  for (const auto& request : requests) EXPECT_EQ(request["status"], 200);
  const auto stages = [](const nlohmann::json& request, const std::vector<const char*>& names) {
    std::vector<double> seconds{0};
    for (const char* name : names) seconds.push_back(request["seconds"].at(name));
    return seconds;
  };
  const auto until_first = {"tokenised", "queued", "first_kernel", "first_token"};
  const auto rise = [](const std::vector<double>& times) {
    return std::is_sorted(times.begin(), times.end());
  };
  for (const auto& request : requests) {
    EXPECT_TRUE(rise(stages(request, until_first))) << request;
    EXPECT_TRUE(rise(stages(request, {"first_token", "first_byte", "end"}))) << request;
    EXPECT_TRUE(rise(stages(request, {"first_token", "last_token", "end"}))) << request;
  }
  // An answer that is not streamed is written after its last token.
  EXPECT_TRUE(rise(stages(requests[1], {"last_token", "first_byte"}))) << requests[1];
}

TEST(Server, TheTimeToTheFirstKernelIncludesTheWaitForAnotherRequest) {
  Running running(model_with_a_fault, room_for(512, 1));
  running.backend.is_gated = true;
  const Connection runs(running.server.port()), waits(running.server.port());
  runs.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 1, "temperature": 0})");
  running.wait_for_step(1);
  waits.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 1, "temperature": 0})");
  test::wait_until([&] { return status_of(running)["answers"].size() == 2; });
  std::this_thread::sleep_for(10ms);
  running.backend.gate.release(2);
  waits.read();
  const nlohmann::json seconds = status_of(running)["requests"][0]["seconds"];
  EXPECT_GT(seconds["first_kernel"].get<double>() - seconds["queued"].get<double>(), 0.009);
}

TEST(Server, WhoSendsNothingIsDisconnectedAndMakesRoomForOthers) {
  ServerOptions options = any_port();
  options.limits.max_connections = 1;
  options.limits.read_timeout = 1s;
  Running running(model_with_a_fault, room_for(512, 16), options);
  const Connection silent(running.server.port()), half(running.server.port()), other(running.server.port());
  half.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{");
  other.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 1})");
  EXPECT_THAT(other.read(), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(silent.read(), "");
  EXPECT_EQ(half.read(), "");
}

TEST(Server, WhatCanNotBeRunIsTheClientsFaultNotTheEngines) {
  EngineOptions small = room_for(512, 1);
  small.num_pages = 8;
  Running running(model_with_a_fault, small);
  const std::string answer = running.ask(R"({"prompt": "abc", "max_tokens": 1000})");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer, HasSubstr("pages of the KV cache"));
}

// ./test runs this with ThreadSanitizer, because the threads of server and engine interact here.
TEST(Server, ManyClientsAreAnsweredWhileOthersLeave) {
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
        asks.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
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
