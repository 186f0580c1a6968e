// Lets each allocation of a server fail once, on whatever thread. At most one request fails, the others get the answers that they get
// otherwise, and the server goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/memory/failing_memory.h"
#include "tests/server/toy_server.h"

namespace nibble::server {
namespace {

using Json = nlohmann::json;
using test::Connection;

struct Asked {
  std::string path, body;
};
const std::vector<Asked>& questions() {
  static const std::vector<Asked> all{
      {"/v1/completions", R"({"prompt": "abc", "max_tokens": 5, "temperature": 0, "logprobs": 2})"},
      {"/v1/completions", R"({"prompt": "fed", "max_tokens": 6, "temperature": 0, "stream": true})"},
      {"/v1/completions", R"({"prompt": ["ab", "cd"], "max_tokens": 4, "seed": 3, "n": 2})"},
      {"/tokenize", R"({"prompt": "What is 17 + 25?"})"},
  };
  return all;
}

// What an answer says, without its id and its time; nothing if it is an error or is cut off.
std::optional<std::string> told_by(const std::string& answer) {
  if (!answer.starts_with("HTTP/1.1 200 ")) return {};
  const std::string body = answer.substr(answer.find("\r\n\r\n") + 4);
  const auto told = [](Json json) {
    if (json.is_object())
      for (const char* name : {"id", "created"}) json.erase(name);
    return json.dump();
  };
  if (answer.find("text/event-stream") == std::string::npos) {
    const Json json = Json::parse(body, nullptr, false);
    return json.is_discarded() ? std::nullopt : std::optional(told(json));
  }
  if (body.find("data: [DONE]") == std::string::npos || body.find("\"error\"") != std::string::npos)
    return {};
  std::string all;
  for (size_t at = body.find("data: {"); at != std::string::npos; at = body.find("data: {", at + 1))
    all += told(Json::parse(body.substr(at + 6, body.find('\n', at) - at - 6), nullptr, false));
  return all;
}

// Sends all questions at once while the k-th allocation fails. Returns how many there were.
int64_t ask_with(Running& running, int64_t k, std::vector<std::optional<std::string>>& told) {
  const test::FailingMemory memory(k);
  std::vector<std::unique_ptr<Connection>> connections;
  for (const Asked& asked : questions()) {
    connections.push_back(std::make_unique<Connection>(running.server.port()));
    connections.back()->post(asked.path, asked.body);
  }
  told.clear();
  for (const auto& connection : connections) told.push_back(told_by(connection->read()));
  return memory.num_allocations();
}

TEST(ServerMemory, OneAllocationThatFailsEndsAtMostOneRequest) {
  test::spare_this_thread();
  Running running(toy_logits);
  spdlog::set_level(spdlog::level::off);
  std::vector<std::optional<std::string>> expected, told;
  ask_with(running, 0, expected);  // what is made only once
  const int64_t num_allocations = ask_with(running, 0, expected);
  for (const auto& answer : expected) ASSERT_TRUE(answer);
  const int64_t step = std::max<int64_t>(1, num_allocations / 1000);
  for (int64_t k = 1; k <= num_allocations && !HasFailure(); k += step) {
    ask_with(running, k, told);
    EXPECT_LE(std::count(told.begin(), told.end(), std::nullopt), 1) << "allocation " << k;
    for (size_t n = 0; n < told.size(); ++n)
      if (told[n]) {
        EXPECT_EQ(*told[n], *expected[n]) << "question " << n << ", allocation " << k;
      }
  }
  ask_with(running, 0, told);
  EXPECT_EQ(told, expected);
  const auto is_working = [&] {
    const EngineState state = running.engine.state();
    return state.num_running + state.num_waiting + state.pages_held.full + state.pages_held.sliding > 0;
  };
  while (is_working()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Connection connection(running.server.port());
  connection.send("GET /status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(connection.read(), testing::HasSubstr("\"answers\":[]"));
}

}  // namespace
}  // namespace nibble::server
