// Tests the limit on the memory of all request bodies together, and how long a body counts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/server/toy_server.h"

namespace nibble::server {
namespace {

using namespace std::chrono_literals;
using test::any_port;
using test::Connection;
using testing::HasSubstr;
using testing::StartsWith;

constexpr size_t kMega{1 << 20};
constexpr const char* kGoOn{"HTTP/1.1 100 Continue\r\n\r\n"};

ServerOptions room_for_three_bodies() {
  ServerOptions options = any_port();
  options.limits.max_body_bytes = options.limits.max_bodies_bytes = 3 * kMega;
  return options;
}

// Takes the whole budget for bodies, once the I/O thread has freed it. Fails if a part of it is never freed.
void expect_all_room_for_bodies(const Running& running) {
  std::string answer;
  for (int i = 0; i < 1000 && !answer.starts_with("HTTP/1.1 200 "); ++i) {
    std::this_thread::sleep_for(10ms);
    const Connection connection(running.server.port());
    connection.post("/tokenize", R"({"prompt": "a"})" + std::string(3 * kMega - 15, ' '));
    answer = connection.read();
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
}

std::string completion_of(size_t num_bytes) {
  const std::string begin = R"({"prompt": "abc", "max_tokens": 4, "temperature": 0, "pad": ")";
  return begin + std::string(num_bytes - begin.size() - 2, 'x') + "\"}";
}

TEST(Server, BodiesShareOneLimitAndShortOnesAreTakenNextToLargeOnes) {
  Running running(model_with_a_fault, room_for(512, 16), room_for_three_bodies());
  const uint16_t port = running.server.port();
  const std::string body = completion_of(kMega);
  const auto all_but_the_end = body.substr(0, kMega - 1);
  const Connection slow(port), wrong(port);
  auto goes = std::make_unique<Connection>(port);
  for (const Connection* writer : std::initializer_list<const Connection*>{&slow, &wrong, goes.get()}) {
    EXPECT_EQ(writer->announce("/v1/completions", kMega), kGoOn);
    writer->send(all_but_the_end);
  }
  std::string answer;
  // Waits because the bytes of the first request may not have arrived yet.
  test::wait_until([&] {
    const Connection refused(port);
    answer = refused.announce("/v1/completions", kMega);
    if (answer == kGoOn) return false;
    answer += refused.read();
    return true;
  });
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(answer, HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(answer, HasSubstr("the bodies of other requests use the 3145728 bytes of memory"));
  EXPECT_THAT(running.ask(completion_of(16 << 10)), HasSubstr("\"text\":\"!!!!\""));

  goes.reset();
  wrong.send("x");
  EXPECT_THAT(wrong.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  slow.send(body.substr(kMega - 1));
  EXPECT_THAT(slow.read_until("finish_reason"), HasSubstr("\"text\":\"!!!!\""));
  expect_all_room_for_bodies(running);
}

TEST(Server, BodiesThatAreAnnouncedAndNotSentBlockNoRequest) {
  Running running(model_with_a_fault, room_for(512, 16), room_for_three_bodies());
  std::vector<std::unique_ptr<Connection>> writers;
  for (int i = 0; i < 40; ++i) {
    writers.push_back(std::make_unique<Connection>(running.server.port()));
    EXPECT_EQ(writers.back()->announce("/v1/completions", 3 * kMega), kGoOn);
    writers.back()->send("{");
  }
  EXPECT_THAT(running.ask(completion_of(3 * kMega)), HasSubstr("\"text\":\"!!!!\""));
}

std::string in_a_chunk(const std::string& path, const std::string& body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: "
      "chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n",
      path, body.size(), body);
}

TEST(Server, ABodyInChunksIsCountedAsItComes) {
  Running running(model_with_a_fault, room_for(512, 16), room_for_three_bodies());
  const uint16_t port = running.server.port();
  running.backend.is_gated = true;
  const Connection first(port), second(port), small(port);
  // The body of a request to /v1/responses counts until the response ends.
  first.send(in_a_chunk("/v1/responses", R"({"input": "abc", "max_output_tokens": 4, "pad": ")" +
                                             std::string(2 * kMega, 'x') + "\"}"));
  running.wait_for_step(1);
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
  // The reasoning of finished turns is stored, but is not part of the prompt.
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
  test::wait_until([&] {
    return running.server.metrics()
               .text(running.engine.state())
               .find("num_requests_running{model_name=\"toy\"} 1") != std::string::npos;
  });
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
    running.wait_for_step(1);
    expect_all_room_for_bodies(running);
    running.open_gate();
    EXPECT_THAT(connection.read(), StartsWith("HTTP/1.1 200 "));
  }
}

TEST(Server, ChunkExtensionsAndTrailersAreBounded) {
  Running running(model_with_a_fault, room_for(512, 16));
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string trailer = "0\r\n";
  for (int i = 0; i < 20000; ++i) trailer += "a: b\r\n";
  for (const std::string& flood : {"5;a=" + std::string(100'000, 'x'), trailer}) {
    const Connection connection(running.server.port());
    connection.send(head + flood);
    EXPECT_THAT(connection.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  }
}

}  // namespace
}  // namespace nibble::server
