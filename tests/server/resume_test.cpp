// Tests over sockets that a client can resume reading an answer after its connection was lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "harmony/json_text.h"
#include "tests/server/toy_server.h"

namespace nibble::server {
namespace {

using namespace std::chrono_literals;
using test::any_port;
using test::Connection;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A model that answers a chat with "!" without end, in the channel "final".
std::vector<float> endless_chat(std::span<const TokenId> context) {
  static const auto tokens = [](const char* text) { return tiny().encode(text, SpecialTokens::kRecognise); };
  static const std::vector<TokenId> begin = tokens("<|start|>assistant");
  static const std::vector<TokenId> header = tokens("<|channel|>final<|message|>");
  const auto last = std::find_end(context.begin(), context.end(), begin.begin(), begin.end());
  const auto num_written = static_cast<size_t>(context.end() - last) - begin.size();
  std::vector<float> logits(kToyVocab, 0.0f);
  logits[num_written < header.size() ? static_cast<size_t>(header[num_written]) : 0] = 10;
  return logits;
}

// `num_tokens`: tokens of the content, without those of the header.
std::string chat(int num_tokens, const std::string& more = R"("resumable": true)") {
  return fmt::format(
      R"({{"messages": [{{"role": "user", "content": "abc"}}], "max_tokens": {}, "temperature": 0, )"
      R"("stream": true, {}}})",
      num_tokens + 3, more);
}

std::string ask(const Running& running, const std::string& method, const std::string& path,
                const std::string& more = "") {
  const Connection connection(running.server.port());
  connection.send(
      fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\r\n", method, path, more));
  return connection.read();
}

// Reads the header of an answer, and returns the id in it.
std::string id_in(const std::string& head) {
  constexpr std::string_view kName{"X-Nibble-Answer: "};
  const size_t begin = head.find(kName);
  if (begin == std::string::npos) return "";
  return head.substr(begin + kName.size(), head.find("\r\n", begin) - begin - kName.size());
}

// Returns the numbers of the events in the bytes of an answer.
std::vector<int> numbers_in(const std::string& bytes) {
  std::vector<int> numbers;
  for (size_t at = bytes.find("id: "); at != std::string::npos; at = bytes.find("id: ", at + 1))
    numbers.push_back(std::stoi(bytes.substr(at + 4)));
  return numbers;
}

std::string text_in(const std::string& bytes) {
  std::string text;
  for (size_t at = bytes.find("data: {"); at != std::string::npos; at = bytes.find("data: {", at + 1)) {
    const auto chunk = Json::parse(bytes.substr(at + 6, bytes.find('\n', at) - at - 6));
    if (chunk.contains("choices")) text += chunk["choices"][0]["delta"].value("content", "");
  }
  return text;
}

TEST(Resume, AnAnswerGoesOnWithoutItsConnectionAndIsReadFromAnyEvent) {
  Running running(endless_chat);
  running.backend.is_gated = true;
  std::string id;
  {
    const Connection connection(running.server.port());
    connection.post("/v1/chat/completions", chat(6));
    id = id_in(connection.read_until("\r\n\r\n"));  // the header with the id is sent before the first token
    ASSERT_THAT(id, StartsWith("ans_"));
    running.backend.gate.release(6);
    connection.read_until("id: 1\n");
  }
  running.wait_until_someone_has_gone();
  running.open_gate();
  const std::string whole = ask(running, "GET", "/v1/answers/" + id);
  EXPECT_THAT(whole, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(whole, HasSubstr("data: [DONE]"));
  EXPECT_EQ(text_in(whole), "!!!!!!");
  const std::vector<int> all = numbers_in(whole);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<int>(i));
  for (const auto& [path, header] : std::vector<std::pair<std::string, std::string>>{
           {"?starting_after=1", ""}, {"", "Last-Event-ID: 1\r\n"}}) {
    const std::string rest = ask(running, "GET", "/v1/answers/" + id + path, header);
    EXPECT_EQ(numbers_in(rest), std::vector<int>(all.begin() + 2, all.end()));
  }
  const std::string none = ask(running, "GET", "/v1/answers/" + id + "?starting_after=99");
  EXPECT_THAT(none, StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(numbers_in(none).empty());
  EXPECT_THAT(ask(running, "GET", "/v1/answers/" + id + "?starting_after=-1"), StartsWith("HTTP/1.1 400 "));
}

TEST(Resume, WithoutTheFieldALostConnectionEndsTheAnswer) {
  Running running(endless_chat);
  running.backend.is_gated = true;
  {
    const Connection connection(running.server.port());
    connection.post("/v1/chat/completions", chat(0x7fff, R"("resumable": false)"));
    running.wait_for_step(1);
    running.backend.gate.release(1);
    const std::string head = connection.read_until("\r\n\r\n");
    EXPECT_EQ(id_in(head), "");
  }
  running.open_gate();
  test::wait_until([&] { return running.engine.state().num_running == 0; });
}

TEST(Resume, DeleteStopsAnAnswerAtOnceAndTellsItsReaders) {
  Running running(endless_chat);
  running.backend.is_gated = true;
  const Connection connection(running.server.port());
  connection.post("/v1/chat/completions", chat(1000));
  const std::string id = id_in(connection.read_until("\r\n\r\n"));
  running.backend.gate.release(8);
  connection.read_until("id: 3\n");
  EXPECT_THAT(ask(running, "DELETE", "/v1/answers/" + id), HasSubstr(R"("deleted":true)"));
  EXPECT_THAT(connection.read(), HasSubstr("the answer was stopped"));
  running.backend.gate.release(2);
  test::wait_until([&] { return running.engine.state().num_running == 0; });
  EXPECT_THAT(ask(running, "GET", "/v1/answers/" + id), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask(running, "DELETE", "/v1/answers/" + id), StartsWith("HTTP/1.1 404 "));
}

TEST(Resume, AnAnswerThatNobodyReadsIsStoppedAfterItsTime) {
  ServerOptions options = any_port();
  options.keep_time = 50ms;
  Running running(endless_chat, room_for(512, 16), options);
  running.backend.is_gated = true;
  std::string id;
  {
    const Connection connection(running.server.port());
    connection.post("/v1/chat/completions", chat(1000));
    id = id_in(connection.read_until("\r\n\r\n"));
    running.wait_for_step(1);
  }
  running.backend.gate.release(1);
  running.wait_for_step(2);
  std::this_thread::sleep_for(500ms);  // the model answers nothing for ten times keep_time
  running.backend.gate.release(2);
  test::wait_until([&] { return running.engine.state().num_running == 0; });
  EXPECT_THAT(ask(running, "GET", "/v1/answers/" + id), StartsWith("HTTP/1.1 404 "));
}

TEST(Resume, OnlyTheKeyThatStartedAnAnswerReadsOrEndsIt) {
  ServerOptions options = any_port();
  options.api_keys.add("alice:secret1", "a test");
  options.api_keys.add("bob:secret2", "a test");
  Running running(endless_chat, room_for(512, 16), options);
  const std::string body = chat(4);
  const Connection connection(running.server.port());
  connection.send(
      fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                  "secret1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
                  body.size(), body));
  const std::string path = "/v1/answers/" + id_in(connection.read());
  const auto with = [&](const char* method, const char* key) {
    return ask(running, method, path, fmt::format("Authorization: Bearer {}\r\n", key));
  };
  EXPECT_THAT(with("GET", "secret2"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(with("DELETE", "secret2"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask(running, "GET", path), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(with("GET", "secret1"), HasSubstr("data: [DONE]"));
}

TEST(Resume, AboveTheMemoryLimitOldEventsAreGoneAndTheNewestCanBeRead) {
  ServerOptions options = any_port();
  options.max_kept_bytes = 30'000;
  Running running(endless_chat, room_for(512, 16), options);
  const Connection connection(running.server.port());
  connection.post("/v1/chat/completions", chat(1000));
  const std::string sent = connection.read();
  const std::string path = "/v1/answers/" + id_in(sent);
  ASSERT_THAT(sent, HasSubstr("data: [DONE]")) << "a client that reads in time gets all";
  EXPECT_EQ(text_in(sent), std::string(1000, '!'));
  const std::string lost = ask(running, "GET", path);
  EXPECT_THAT(lost, StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(lost, HasSubstr("not kept any more"));
  const std::string end =
      ask(running, "GET", fmt::format("{}?starting_after={}", path, numbers_in(sent).back() - 3));
  EXPECT_EQ(numbers_in(end).size(), 3u);
}

TEST(Resume, AClientThatReadsAfterTheModelHasWrittenAllGetsEveryEventAboveTheMemoryLimit) {
  ServerOptions options = any_port();
  options.max_kept_bytes = 5'000;
  Running running(endless_chat, room_for(512, 16), options);
  running.backend.is_gated = true;
  const std::string body =
      R"({"input": "abc", "background": true, "stream": true, "temperature": 0, "max_output_tokens": 400})";
  const Connection chats(running.server.port()), responses(running.server.port());
  chats.post("/v1/chat/completions", chat(1000));
  responses.post("/v1/responses", body);
  running.wait_for_answers(2);
  running.open_gate();
  test::wait_until([&] { return running.engine.state().num_running == 0; });
  const std::string sent = chats.read();
  EXPECT_EQ(text_in(sent), std::string(1000, '!'));
  const std::vector<int> numbers = numbers_in(sent);
  for (size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], static_cast<int>(i));
  const std::string response = responses.read();
  EXPECT_THAT(response, HasSubstr("event: response.incomplete"));
  int num_events = 0;
  constexpr std::string_view kName{"\"sequence_number\":"};
  for (size_t at = response.find(kName); at != std::string::npos; at = response.find(kName, at + 1))
    ASSERT_EQ(std::stoi(response.substr(at + kName.size())), num_events++);
  EXPECT_GT(num_events, 400);
}

TEST(Resume, AFaultIsReadAgainLikeTheRest) {
  std::atomic<int> num_tokens{0};
  Running running([&](std::span<const TokenId> context) {
    if (++num_tokens == 6) throw std::runtime_error("gone");
    return endless_chat(context);
  });
  const Connection connection(running.server.port());
  connection.post("/v1/chat/completions", chat(9));
  const std::string sent = connection.read();
  EXPECT_THAT(sent, HasSubstr("the model could not be run: gone"));
  const std::string again = ask(running, "GET", "/v1/answers/" + id_in(sent));
  EXPECT_THAT(again, HasSubstr("the model could not be run: gone"));
  EXPECT_EQ(numbers_in(again), numbers_in(sent));
}

TEST(Resume, AServerWithoutMemoryForAnswersKeepsNone) {
  ServerOptions options = any_port();
  options.max_kept_bytes = 0;
  Running running(endless_chat, room_for(512, 16), options);
  const Connection connection(running.server.port());
  connection.post("/v1/chat/completions", chat(3));
  const std::string sent = connection.read();
  EXPECT_EQ(id_in(sent), "");
  EXPECT_EQ(text_in(sent), "!!!");
  const Connection other(running.server.port());
  other.post("/v1/responses", R"({"input": "abc", "background": true, "stream": true})");
  EXPECT_THAT(other.read(), HasSubstr("background must be false if stream is true, on this server"));
}

TEST(Resume, AnAnswerWithoutAClientEndsWithTheServer) {
  ServerOptions options = any_port();
  options.shutdown_timeout = 0s;
  Running running(endless_chat, room_for(512, 16), options);
  {
    const Connection connection(running.server.port());
    connection.post("/v1/chat/completions", chat(1000));
    connection.read_until("id: 2\n");
  }
  running.wait_until_someone_has_gone();
  ::kill(::getpid(), SIGTERM);
  running.thread.join();
}

TEST(Progress, AStreamTellsThePlaceInTheQueueAndTheShareOfThePromptThatHasRun) {
  Running running(endless_chat, room_for(16, 1));
  running.backend.is_gated = true;
  const std::string body = chat(2, R"("return_progress": true)");
  const Connection first(running.server.port()), second(running.server.port());
  first.post("/v1/chat/completions", body);
  running.wait_for_step(1);
  second.post("/v1/chat/completions", body);
  running.wait_for_answers(2);
  running.open_gate();
  const auto progress_in = [](const std::string& bytes) {
    std::vector<Json> all;
    for (size_t at = bytes.find("data: {"); at != std::string::npos; at = bytes.find("data: {", at + 1)) {
      const auto chunk = Json::parse(bytes.substr(at + 6, bytes.find('\n', at) - at - 6));
      if (chunk.contains("prompt_progress")) all.push_back(chunk["prompt_progress"]);
    }
    return all;
  };
  const std::vector<Json> running_first = progress_in(first.read());
  ASSERT_GE(running_first.size(), 3u);
  EXPECT_EQ(running_first[0]["processed"], 0);
  EXPECT_EQ(running_first[1]["processed"], 16);
  EXPECT_EQ(running_first[1]["queue"], 0);
  EXPECT_GT(running_first[1]["total"], 32);
  const std::vector<Json> waiting = progress_in(second.read());
  ASSERT_GE(waiting.size(), 2u);
  EXPECT_EQ(waiting[0]["queue"], 1);
  EXPECT_EQ(waiting[0]["processed"], 0);
  EXPECT_EQ(waiting[1]["queue"], 0);
}

TEST(Progress, IsNotSentUnlessItIsRequested) {
  Running running(endless_chat, room_for(16, 1));
  const Connection connection(running.server.port());
  connection.post("/v1/chat/completions", chat(2, R"("n": 1)"));
  EXPECT_THAT(connection.read(), Not(HasSubstr("prompt_progress")));
}

}  // namespace
}  // namespace nibble::server
