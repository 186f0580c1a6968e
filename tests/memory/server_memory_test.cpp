// Makes allocations of a server fail while it answers a request: one allocation, 8 or 64 in a row, or all
// large ones. After 64 the server often lacks the memory to report the error too. The request gets the right
// answer, an error, or a closed connection. The next request gets the right answer, and nothing is held
// afterwards.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/text/json.h"
#include "tests/memory/failing_memory.h"
#include "tests/memory/raw_client.h"
#include "tests/server/toy_server.h"

namespace nibble::server {
namespace {

using test::RawAnswer;
using Object = nlohmann::json;
using namespace nlohmann::literals;

constexpr std::chrono::seconds kPatience{20};  // longer than an allocation of JSON waits for free memory

// The model's answer to every prompt. Set while the server is idle.
std::atomic<const std::vector<TokenId>*> script{nullptr};

// Returns the script's tokens after the last "<|start|>assistant", then letters. A constraint may choose
// other tokens.
std::vector<float> model_with_a_script(std::span<const TokenId> context) {
  static const TokenId start = tiny().special("<|start|>").value();
  std::vector<float> logits(kToyVocab, 0.0f);
  const auto last = std::find(context.rbegin(), context.rend(), start);
  const auto num_since =
      // number of tokens after the last <|start|>; the first of them is "assistant"
      static_cast<size_t>(last - context.rbegin());
  const std::vector<TokenId>& told = *script.load();
  const size_t place = last == context.rend() ? context.size() - 1 : num_since - 1;
  logits[place < told.size() ? static_cast<size_t>(told[place]) : 64 + place % 20] = 1000;
  return logits;
}

struct Case {
  std::string name, method, path, body;
  std::string answer{"<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant"};
  bool is_same{true};  // whether repeating the request gives the same answer, apart from numbers and ids
  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

const std::string kWeather{
    R"({"type": "object", "properties": {"city": {"type": "string", "description": "the name of a city"},
        "unit": {"enum": ["celsius", "fahrenheit"]}}, "required": ["city"], "additionalProperties": false})"};

// "@" in a body is replaced by a number that differs in each call, so no grammar is found in the cache.
std::vector<Case> cases() {
  const std::string hi = R"("messages": [{"role": "user", "content": "Say hello"}])";
  const std::string final = "<|channel|>final<|message|>Hello there, my friend.<|return|>";
  const std::string call =
      R"(<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city":"Rome","unit":"celsius"}<|call|>)";
  const std::string object = R"(<|channel|>final<|message|>{"city":"Rome"}<|return|>)";
  const std::string tools =
      R"("tools": [{"type": "function", "function": {"name": "get_weather", "description": "call @",
          "strict": true, "parameters": )" +
      kWeather + "}}]";
  const std::string format =
      R"("response_format": {"type": "json_schema", "json_schema": {"name": "place@", "strict": true, "schema": )" +
      kWeather + "}}";
  std::string long_text;
  for (int i = 0; i < 3000; ++i) long_text += "word ";
  return {
      {"chat", "POST", "/v1/chat/completions",
       "{" + hi + R"(, "max_tokens": 40, "logprobs": true, "top_logprobs": 2})", final},
      {"chat_stream", "POST", "/v1/chat/completions",
       "{" + hi + R"(, "max_tokens": 40, "stream": true, "stream_options": {"include_usage": true}})", final},
      {"chat_resumable", "POST", "/v1/chat/completions",
       "{" + hi + R"(, "max_tokens": 40, "stream": true, "resumable": true})", final},
      {"chat_choices", "POST", "/v1/chat/completions",
       "{" + hi + R"(, "max_tokens": 12, "n": 3, "stop": ["friend"], "include_reasoning": false})", final},
      {"chat_tools", "POST", "/v1/chat/completions", "{" + hi + ", " + tools + R"(, "max_tokens": 60})",
       call},
      {"chat_tools_stream", "POST", "/v1/chat/completions",
       "{" + hi + ", " + tools + R"(, "max_tokens": 60, "stream": true})", call},
      {"chat_schema", "POST", "/v1/chat/completions", "{" + hi + ", " + format + R"(, "max_tokens": 60})",
       object},
      {"completion_stream", "POST", "/v1/completions",
       R"({"prompt": ["one", "two"], "max_tokens": 8, "logprobs": 1, "stream": true})", final},
      {"response", "POST", "/v1/responses",
       R"({"input": "Say hello", "instructions": "Be short.", "max_output_tokens": 40})", final},
      {"response_stream", "POST", "/v1/responses",
       R"({"input": "Say hello", "max_output_tokens": 60, "stream": true, "tools": [{"type": "function",
           "name": "get_weather", "description": "call @", "parameters": )" +
           kWeather + "}]}",
       call},
      {"response_background", "POST", "/v1/responses",
       R"({"input": "Say hello", "max_output_tokens": 40, "stream": true, "background": true})", final},
      {"message", "POST", "/v1/messages", R"({"model": "toy", "max_tokens": 40, )" + hi + "}", final},
      {"message_stream", "POST", "/v1/messages",
       R"({"model": "toy", "max_tokens": 60, "stream": true, "tools": [{"name": "get_weather", "description": "call @",
           "input_schema": )" +
           kWeather + "}], " + hi + "}",
       call},
      {"ollama_chat", "POST", "/api/chat", R"({"model": "toy", "options": {"num_predict": 40}, )" + hi + "}",
       final},
      {"ollama_whole", "POST", "/api/chat",
       R"({"model": "toy", "stream": false, "options": {"num_predict": 40}, )" + hi + "}", final},
      {"tokenize", "POST", "/tokenize", R"({"prompt": "Hello there", "return_token_strs": true})"},
      // long enough to be tokenised on the parse pool
      {"tokenize_long", "POST", "/tokenize", R"({"prompt": ")" + long_text + R"("})"},
      {"models", "GET", "/v1/models", ""},
      {"status", "GET", "/status.json", "", "", false},
      {"metrics", "GET", "/metrics", "", "", false},
  };
}

// Removes the members whose values differ from call to call.
void scrub(Object& value) {
  constexpr std::string_view kNames[] = {"id",
                                         "created",
                                         "created_at",
                                         "completed_at",
                                         "item_id",
                                         "call_id",
                                         "cached_tokens",
                                         "cache_read_input_tokens",
                                         "prompt_tokens",
                                         "input_tokens",
                                         "total_tokens",
                                         "prompt_eval_count",
                                         "total_duration",
                                         "load_duration",
                                         "prompt_eval_duration",
                                         "eval_duration",
                                         "description",
                                         "name"};
  if (value.is_object()) {
    for (const std::string_view name : kNames)
      if (const auto found = value.find(name); found != value.end()) value.erase(found);
  }
  if (value.is_structured())
    for (Object& part : value) scrub(part);
}

// Returns the JSON of a body: its lines without "data: ". Sorts the lines by choice, because lines of several
// choices come in any order.
std::string scrubbed(std::string_view body) {
  std::vector<std::pair<int, std::string>> lines;
  while (!body.empty()) {
    const size_t length = std::min(body.size(), body.find('\n'));
    std::string_view line = body.substr(0, length);
    body.remove_prefix(std::min(body.size(), length + 1));
    if (line.starts_with("data: ")) line.remove_prefix(6);
    if (line.empty() || line == ":") continue;  // a comment may come or not
    Object value = Object::parse(line, nullptr, false);
    if (value.is_discarded()) {
      lines.emplace_back(0, line);
    } else {
      scrub(value);
      const int choice = value.contains("/choices/0/index"_json_pointer)
                             ? value["/choices/0/index"_json_pointer].get<int>()
                             : 0;
      lines.emplace_back(choice, value.dump());
    }
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  std::string text;
  for (const auto& [choice, line] : lines) text += line + "\n";
  return text;
}

// Returns the HELP lines of Prometheus text, which name all metrics, and the last character of the text.
std::string helps(const std::string& text) {
  std::string found;
  for (size_t at = 0; (at = text.find("# HELP ", at)) != std::string::npos; ++at)
    found += text.substr(at, text.find('\n', at) - at);
  return found + text.back();
}

class ServerMemoryOfConnections : public testing::Test {
 protected:
  ServerMemoryOfConnections() : running_(model_with_a_script, room_for(512, 4), options(), 8) {
    test::spare_this_thread();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("tests", std::make_shared<spdlog::sinks::null_sink_mt>()));
    spdlog::set_level(spdlog::level::debug);  // makes the server write all lines of its log
  }
  ~ServerMemoryOfConnections() override { spdlog::set_level(spdlog::level::err); }

  // Limits so small that a few requests exceed them if the server leaks connections or bytes.
  static ServerOptions options() {
    ServerOptions options = test::any_port();
    options.limits.max_connections = 3;
    options.limits.max_bodies_bytes = 1'000'000;
    options.limits.uncounted_body_bytes = 0;
    options.max_response_bytes = 20'000;
    options.max_kept_bytes = 20'000;
    return options;
  }

  void set_script(const std::string& answer) {
    script_ = tiny().encode(answer, SpecialTokens::kRecognise);
    script = &script_;
  }

  RawAnswer ask(const Case& asked) {
    set_script(asked.answer);
    std::string body = asked.body;
    ++num_asked_;
    for (size_t at; (at = body.find('@')) != std::string::npos;)
      body.replace(at, 1, fmt::format("{:06}", num_asked_));
    return test::RawClient(running_.server.port()).ask(asked.method, asked.path, body, kPatience);
  }
  // Sends a request while allocations fail. Returns the number of allocations; nullopt if none failed.
  std::optional<int64_t> ask(const Case& asked, const test::Failures& failures, RawAnswer& answer) {
    const test::FailingMemory memory(failures);
    answer = ask(asked);
    if (failures.first > 0 && !memory.has_failed()) return std::nullopt;
    return memory.num_allocations();
  }

  static void check_same(const Case& asked, const RawAnswer& answer, const RawAnswer& right) {
    ASSERT_EQ(answer.end, RawAnswer::End::kComplete) << answer.status << " " << answer.body;
    ASSERT_EQ(answer.status, 200) << answer.body;
    if (asked.is_same)
      ASSERT_EQ(scrubbed(answer.body), scrubbed(right.body));
    else if (answer.body.starts_with('{'))
      ASSERT_TRUE(Object::accept(answer.body)) << answer.body;
    else
      ASSERT_EQ(helps(answer.body), helps(right.body));
  }

  static void check_fails_well(const Case& asked, const RawAnswer& answer, const RawAnswer& right) {
    ASSERT_NE(answer.end, RawAnswer::End::kSilence) << answer.body;
    ASSERT_NE(answer.end, RawAnswer::End::kGarbage) << answer.body;
    if (answer.end == RawAnswer::End::kClosed) return;
    if (answer.status >= 500) return;
    if (answer.status == 200 && answer.body.find("out of memory") != std::string::npos) return;
    if (answer.status == 200 && answer.body.find("bad_alloc") != std::string::npos) return;
    check_same(asked, answer, right);
  }

  void check_nothing_is_held() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const EngineState state = running_.engine.state();
      if (state.num_running + state.num_waiting + state.pages_held.full + state.pages_held.sliding == 0) {
        ASSERT_EQ(state.lost, "");
        return;
      }
      ASSERT_LT(std::chrono::steady_clock::now(), end)
          << state.num_running << " run, " << state.num_waiting << " wait, " << state.pages_held.full
          << " pages are held";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // Checks that a response whose id the client received does not run on without end.
  void check_response_ends(const RawAnswer& begun) {
    const size_t at = begun.body.find("resp_");
    if (at == std::string::npos) return;
    const std::string path = "/v1/responses/" + begun.body.substr(at, begun.body.find('"', at) - at);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const RawAnswer now = test::RawClient(running_.server.port()).ask("GET", path, "", kPatience);
      ASSERT_EQ(now.end, RawAnswer::End::kComplete);
      if (now.status == 404) return;  // it could not be stored
      const Object response = Object::parse(now.body);
      if (response.at("status") != "queued" && response.at("status") != "in_progress") return;
      ASSERT_LT(std::chrono::steady_clock::now(), end) << now.body;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void check_works() {
    const Case simple{"", "POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 2})",
                      "<|start|>assistantHello"};
    const RawAnswer answer = ask(simple);
    ASSERT_EQ(answer.end, RawAnswer::End::kComplete);
    ASSERT_EQ(answer.status, 200) << answer.body;
    check_nothing_is_held();
  }

  // Checks that the server ends: it waits for requests that are still counted.
  void check_ends() {
    ::kill(::getpid(), SIGTERM);
    running_.thread.join();
    ASSERT_EQ(running_.end, ServerEnd::kComplete);
  }

  Running running_;

 private:
  std::vector<TokenId> script_;
  int num_asked_{0};
};

class ServerMemory : public ServerMemoryOfConnections, public testing::WithParamInterface<Case> {};
INSTANTIATE_TEST_SUITE_P(All, ServerMemory, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

// Returns how many allocations of a case fail, each in its own run. NIBBLE_MEMORY_TESTS sets another number.
int64_t num_tried() {
  const char* given = std::getenv("NIBBLE_MEMORY_TESTS");
  return given ? std::atoll(given) : 60;
}

TEST_P(ServerMemory, AnAllocationThatFailsEndsAtMostItsRequest) {
  const Case& asked = GetParam();
  ask(asked);
  // After one request of each kind, the list of metrics no longer changes.
  ASSERT_NO_FATAL_FAILURE(check_works());
  const RawAnswer right = ask(asked);
  ASSERT_EQ(right.status, 200) << right.body;
  ASSERT_NO_FATAL_FAILURE(check_same(asked, ask(asked), right));
  RawAnswer counted;
  const int64_t num_allocations = ask(asked, {}, counted).value();
  ASSERT_GT(num_allocations, 20);
  const int64_t step = std::max<int64_t>(1, num_allocations / num_tried());
  for (const int64_t number : {1, 8, 64})
    for (int64_t k = 1 + (number > 1 ? step / 2 : 0);; k += step) {
      SCOPED_TRACE(fmt::format("{} allocations of {} from {} on", number, num_allocations, k));
      RawAnswer answer;
      const bool has_failed = ask(asked, {.first = k, .number = number}, answer).has_value();
      ASSERT_NO_FATAL_FAILURE(check_fails_well(asked, answer, right));
      ASSERT_NO_FATAL_FAILURE(check_works());
      ASSERT_NO_FATAL_FAILURE(check_response_ends(answer));
      if (!has_failed) break;
    }
  ASSERT_NO_FATAL_FAILURE(check_same(asked, ask(asked), right));
  ASSERT_NO_FATAL_FAILURE(check_ends());
}

// Returns requests that need large pieces of memory for their bodies, for the data made of them, or for the
// answers.
std::vector<Case> large_cases() {
  std::string text, numbers;
  for (int i = 0; i < 40'000; ++i) text += "word ";
  for (int i = 0; i < 20'000; ++i) numbers += fmt::format("{}{}", i > 0 ? ", " : "", i % 200);
  const std::string final = "<|channel|>final<|message|>Hello.<|return|>";
  return {
      {"chat", "POST", "/v1/chat/completions",
       R"({"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "metadata": {"text": ")" + text +
           R"("}})",
       final},
      {"tokenize", "POST", "/tokenize", R"({"prompt": ")" + text + R"("})"},
      {"detokenize", "POST", "/detokenize", R"({"tokens": [)" + numbers + "]}"},
  };
}

class ServerMemoryInBursts : public ServerMemory {};
INSTANTIATE_TEST_SUITE_P(All, ServerMemoryInBursts, testing::ValuesIn(large_cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(ServerMemoryInBursts, ALackOfLargePiecesEndsAtMostItsRequest) {
  const Case& asked = GetParam();
  const RawAnswer right = ask(asked);
  ASSERT_EQ(right.status, 200) << right.body;
  for (int round = 0; round < 2; ++round) {
    RawAnswer answer;
    const auto num_failed =
        ask(asked, {.first = 1, .number = test::Failures::kAll, .min_bytes = 64 << 10}, answer);
    ASSERT_TRUE(num_failed.has_value()) << "the request needs no large piece";
    ASSERT_NO_FATAL_FAILURE(check_fails_well(asked, answer, right));
    ASSERT_NO_FATAL_FAILURE(check_works());
    ASSERT_NO_FATAL_FAILURE(check_same(asked, ask(asked), right));
  }
  ASSERT_NO_FATAL_FAILURE(check_ends());
}

TEST(ServerMemoryAtTheEnd, ASignalEndsTheServerProperlyAlthoughMemoryIsShort) {
  test::spare_this_thread();
  for (const int64_t number : {1, 64}) {
    bool has_failed = true;
    for (int64_t k = 1; has_failed; ++k) {
      SCOPED_TRACE(fmt::format("{} allocations from {} on", number, k));
      Running running([](std::span<const TokenId>) { return std::vector<float>(kToyVocab); });
      const test::FailingMemory memory({.first = k, .number = number});
      ::kill(::getpid(), SIGTERM);
      running.thread.join();
      ASSERT_EQ(running.end, ServerEnd::kComplete);
      has_failed = memory.has_failed();
    }
  }
}

// Closes connections before a request, within a request, or after a request whose answer is not read.
TEST_F(ServerMemoryOfConnections, AConnectionThatIsClosedLeavesNothing) {
  const std::string request = R"({"prompt": "a", "max_tokens": 30, "stream": true})";
  const std::string head = fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", request.size());
  set_script("<|start|>assistantHello");
  for (const std::string& sent : {std::string(), head, head + request, head + request + head + request})
    for (const int64_t number : {1, 8}) {
      bool has_failed = true;
      for (int64_t k = 1; has_failed && k < 1000; k += k < 200 ? 1 : 17) {
        SCOPED_TRACE(fmt::format("{} bytes, {} allocations from {} on", sent.size(), number, k));
        {
          const test::FailingMemory memory({.first = k, .number = number});
          test::RawClient client(running_.server.port());
          client.send(sent);
          client.wait_for_a_byte(sent.ends_with('}') ? std::chrono::milliseconds(50)
                                                     : std::chrono::milliseconds(1));
          client.close();
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          has_failed = memory.has_failed();
        }
        ASSERT_NO_FATAL_FAILURE(check_works());
      }
    }
  ASSERT_NO_FATAL_FAILURE(check_ends());
}

}  // namespace
}  // namespace nibble::server
