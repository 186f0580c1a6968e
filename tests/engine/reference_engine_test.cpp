// Tests the engine with the reference backend and the bundled checkpoint. Answers must equal continuations
// that other implementations computed (tests/golden).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "core/files/mapped_file.h"
#include "core/text/json.h"
#include "engine/engine.h"
#include "formats/open_container.h"
#include "model/weights.h"
#include "reference/reference_backend.h"
#include "tests/engine/answers.h"
#include "tests/engine/stop_oracle.h"
#include "tests/folders.h"

namespace nibble {
namespace {

using testing::ElementsAreArray;
using Tokens = std::vector<TokenId>;

struct GoldenPrompt {
  std::string name;
  Tokens prompt, greedy;
  std::optional<size_t> greedy_stops_after;  // number of tokens, including the stop token
};

Tokens read_tokens(const Container& golden, const std::string& name) {
  const Tensor* tensor = golden.find(name);
  if (tensor == nullptr) throw std::runtime_error("no " + name);
  Tokens tokens(tensor->data.size() / sizeof(TokenId));
  std::memcpy(tokens.data(), tensor->data.data(), tensor->data.size());
  return tokens;
}

// Prompts of one token, prompts about as long as the window of 128, and chats. The prompts are few and short,
// because sanitizers slow the reference down.
constexpr const char* kPrompts[] = {"prose1",
                                    "prose5",
                                    "prose33",
                                    "prose127",
                                    "prose128",
                                    "prose129",
                                    "mini_chat_reverse_short_low",
                                    "mini_chat_capital_high"};

class ReferenceEngine : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string folder = test::source_path("tests/golden/");
    const auto index = nlohmann::json::parse(read_text_file(folder + "golden.json", 1 << 20));
    const Container golden = open_container(folder + "golden.safetensors");
    stop_tokens() = index["stop_tokens"].get<Tokens>();
    for (const auto& prompt : index["prompts"]) {
      const std::string name = prompt["name"];
      if (std::find(std::begin(kPrompts), std::end(kPrompts), name) == std::end(kPrompts)) continue;
      GoldenPrompt read{name, read_tokens(golden, name + ".ids"), read_tokens(golden, name + ".greedy"), {}};
      if (const auto& after = prompt["greedy_stops_after"]; !after.is_null()) read.greedy_stops_after = after;
      prompts().push_back(std::move(read));
    }
    ASSERT_EQ(prompts().size(), std::size(kPrompts));
  }
  static std::vector<GoldenPrompt>& prompts() {
    static std::vector<GoldenPrompt> all;
    return all;
  }
  static Tokens& stop_tokens() {
    static Tokens all;
    return all;
  }
  static const GoldenPrompt& prompt(std::string_view name) {
    for (const GoldenPrompt& golden : prompts())
      if (golden.name == name) return golden;
    throw std::runtime_error("no such prompt");
  }

  const Answer& ask(const GenerationRequest& asked) { return answers_.wait_for(engine_.submit(asked)); }
  std::string text_of(const Tokens& tokens) const {
    Tokens ordinary;
    for (const TokenId token : tokens)
      if (!tokenizer_.is_special(token)) ordinary.push_back(token);
    return tokenizer_.decode(ordinary);
  }

  // Chunks end inside pages and the cache holds about five sequences, so prompts wait, share steps and reuse
  // pages.
  const EngineOptions options_{
      .num_pages = 65, .max_batch_tokens = 50, .max_sequences = 6, .max_context = 300};
  const Tokenizer tokenizer_{Tokenizer::open(test::source_path("models/tiny-gpt-oss"))};
  const std::unique_ptr<Backend> backend_{
      reference::make(std::make_shared<const Weights>(open_weights(test::source_path("models/tiny-gpt-oss"))),
                      {.num_pages = options_.num_pages,
                       .max_batch_tokens = options_.max_batch_tokens,
                       // the matrices are so small that synchronising threads costs more than it saves
                       .num_threads = 1})};
  Engine engine_{*backend_, tokenizer_, options_};
  Answers answers_{engine_};
};

TEST_F(ReferenceEngine, ContinuesGoldenPromptsTogetherAsOthersDoEachAlone) {
  constexpr int kNumTokens{24};
  std::map<RequestId, const GoldenPrompt*> asked;
  for (const GoldenPrompt& golden : prompts()) {
    GenerationRequest request;
    request.prompt = golden.prompt;
    request.stop.max_tokens = kNumTokens;
    asked[engine_.submit(request)] = &golden;
  }
  for (const auto& [id, golden] : asked) {
    const Answer& answer = answers_.wait_for(id);
    EXPECT_THAT(answer.tokens, ElementsAreArray(std::span(golden->greedy).first(kNumTokens))) << golden->name;
    EXPECT_EQ(answer.finished.value().reason, FinishReason::kMaxTokens);
  }
}

TEST_F(ReferenceEngine, StopsAtTheTokensOfTheCheckpoint) {
  int num_stopped = 0;
  for (const GoldenPrompt& golden : prompts()) {
    if (!golden.greedy_stops_after) continue;
    GenerationRequest request;
    request.prompt = golden.prompt;
    request.stop.tokens = stop_tokens();
    const Answer& answer = ask(request);
    EXPECT_EQ(answer.finished.value().reason, FinishReason::kStopToken);
    Tokens expected = golden.greedy;
    expected.resize(*golden.greedy_stops_after);
    EXPECT_EQ(answer.tokens, expected) << golden.name;
    EXPECT_EQ(answer.text, text_of(expected)) << golden.name;
    ++num_stopped;
  }
  EXPECT_EQ(num_stopped, 2);
}

TEST_F(ReferenceEngine, StopStringsCutTheTextWhereItFirstHasThem) {
  const GoldenPrompt& golden = prompt("prose33");
  const std::string whole = text_of(golden.greedy);
  const std::vector<std::vector<std::string>> lists{{"so easily", "the facts"},
                                                    {"not in the text", "I have"}};
  for (const std::vector<std::string>& strings : lists) {
    GenerationRequest request;
    request.prompt = golden.prompt;
    request.stop.strings = strings;
    request.stop.max_tokens = static_cast<int>(golden.greedy.size());
    const Answer& answer = ask(request);
    const StoppedText expected = cut_at_stop(whole, strings);
    ASSERT_TRUE(expected.has_stopped);
    EXPECT_EQ(answer.text, expected.text);
    EXPECT_EQ(answer.finished.value().reason, FinishReason::kStopString);
  }
}

TEST_F(ReferenceEngine, TheSameSeedGivesTheSameTextAloneAndAmongOthers) {
  GenerationRequest request;
  request.prompt = prompt("prose33").prompt;
  request.sample.temperature = 1;
  request.sample.top_p = 0.95f;
  request.sample.seed = 11;
  request.stop.max_tokens = 20;
  const std::string alone = ask(request).text;

  GenerationRequest other = request;
  other.prompt = prompt("prose5").prompt;
  other.sample.seed = 12;
  engine_.submit(other);
  const RequestId again = engine_.submit(request);
  other.prompt = request.prompt;
  const RequestId other_seed = engine_.submit(other);
  EXPECT_EQ(answers_.wait_for(again).text, alone);
  EXPECT_NE(answers_.wait_for(other_seed).text, alone);
}

TEST_F(ReferenceEngine, LogprobsOfTheFirstTokenAreThoseOfOtherImplementations) {
  const Container golden = open_container(test::source_path("tests/golden/golden.safetensors"));
  for (const char* name : {"prose33", "prose127"}) {
    GenerationRequest request;
    request.prompt = prompt(name).prompt;
    request.sample.num_logprobs = 5;
    request.stop.max_tokens = 1;
    const Answer& answer = ask(request);
    // Returns the last row of [T, 5].
    const auto last_five = [&](const char* what) {
      return golden.find(std::string(name) + what)->data.last(5 * sizeof(float));
    };
    ASSERT_EQ(answer.sampled.at(0).top.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      TokenId token = 0;
      float logprob = 0;
      std::memcpy(&token, last_five(".top5_ids").data() + i * sizeof(token), sizeof(token));
      std::memcpy(&logprob, last_five(".top5_logprobs").data() + i * sizeof(logprob), sizeof(logprob));
      EXPECT_EQ(answer.sampled[0].top[i].token, token) << name;
      // Two float32 implementations agree to 1.4e-4 in every logit (tests/golden: golden.json).
      EXPECT_NEAR(answer.sampled[0].top[i].logprob, logprob, 3e-4) << name;
    }
  }
}

}  // namespace
}  // namespace nibble
