#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cli/eval/compare.h"
#include "cli/eval/golden.h"
#include "cli/eval/perplexity.h"
#include "cli/eval/tasks.h"
#include "core/errors/error.h"
#include "setup/plan/capacity.h"
#include "setup/start/resolve.h"
#include "tests/cli/scripted_backend.h"
#include "tests/error_of.h"
#include "tests/folders.h"

namespace nibble::cli {
namespace {

using testing::HasSubstr;

const Config kTinyConfig = read_config(test::source_path("models/tiny-gpt-oss/config.json"));
const Tokenizer kTokenizer = Tokenizer::open(test::source_path("models/tiny-gpt-oss"));

TEST(EvalText, AModelThatKnowsNothingHasThePerplexityOfItsVocabulary) {
  ScriptedBackend backend(kTinyConfig, 0, {0});  // all logits are equal
  const BackendOptions room = backend_options(kTinyConfig, resolve({}), {10, 1});
  const std::string text(25, '\x01');  // one token per byte
  ASSERT_EQ(kTokenizer.encode(text, SpecialTokens::kOrdinary).size(), 25u);

  const Perplexity result =
      measure_perplexity(backend, room, kTokenizer, cut_windows(kTokenizer, text, 10, {}));
  EXPECT_NEAR(result.per_token, 4096, 1e-6);
  EXPECT_NEAR(result.bits_per_byte, 12, 1e-9);  // log2 of 4,096, with one byte per token
  EXPECT_EQ(result.num_windows, 2);             // the last 5 tokens fill no window
  EXPECT_EQ(result.num_scored, 18u);            // 9 per window
}

TEST(EvalText, AShortTextIsOneWindowAndALimitLeavesOutTheRest) {
  ScriptedBackend backend(kTinyConfig, 0, {0});
  const BackendOptions room = backend_options(kTinyConfig, resolve({}), {10, 1});
  EXPECT_EQ(
      measure_perplexity(backend, room, kTokenizer, cut_windows(kTokenizer, std::string(7, '\x01'), 10, {}))
          .num_scored,
      6u);
  EXPECT_EQ(
      measure_perplexity(backend, room, kTokenizer, cut_windows(kTokenizer, std::string(50, '\x01'), 10, 3))
          .num_windows,
      3);
  EXPECT_THROW(cut_windows(kTokenizer, "\x01", 10, {}), InputError);
}

// A backend for which all tokens are equally likely, except token 5, which is e times as likely.
class BiasedBackend : public ScriptedBackend {
 public:
  using ScriptedBackend::ScriptedBackend;
  StepResult step(const Batch& batch) override {
    StepResult result = ScriptedBackend::step(batch);
    for (size_t at = 5; at < result.logits.size(); at += static_cast<size_t>(config().vocab))
      result.logits[at] += 1;
    return result;
  }
};

TEST(EvalCompare, AModelIsNoWayFromItself) {
  BiasedBackend one(kTinyConfig, 0, {0}), other(kTinyConfig, 0, {0});
  const BackendOptions room = backend_options(kTinyConfig, resolve({}), {100, 1});
  const QualityComparison result =
      compare_models(one, other, room, cut_windows(kTokenizer, std::string(250, '\x01'), 100, {}));
  EXPECT_EQ(result.mean_kl, 0);
  EXPECT_EQ(result.p99_kl, 0);
  EXPECT_EQ(result.top1_agreement, 1);
  EXPECT_EQ(result.perplexity, result.unquantised_perplexity);
  EXPECT_EQ(result.num_windows, 2);
  EXPECT_EQ(result.num_scored, 198u);
}

// The vocabulary has V = 4,096 tokens. The plain model gives each token the probability 1 / V. The biased
// model gives token 5 the probability e / (V - 1 + e), and each other token 1 / (V - 1 + e).
TEST(EvalCompare, TheDivergenceIsThatOfTheUnquantisedModelFromTheOther) {
  ScriptedBackend plain(kTinyConfig, 0, {0});
  BiasedBackend biased(kTinyConfig, 0, {0});
  const BackendOptions room = backend_options(kTinyConfig, resolve({}), {100, 1});
  const QualityComparison result =
      compare_models(biased, plain, room, cut_windows(kTokenizer, std::string(250, '\x01'), 100, 1));
  const double vocab = 4096, sum = vocab - 1 + std::exp(1.0);
  EXPECT_NEAR(result.mean_kl, std::log(sum / vocab) - 1 / vocab, 1e-12);
  EXPECT_NEAR(result.p99_kl, result.mean_kl, 1e-12);  // the divergence is equal at every token
  EXPECT_EQ(result.top1_agreement, 0);
  EXPECT_NEAR(result.unquantised_perplexity, vocab, 1e-6);
  ASSERT_NE(kTokenizer.encode("\x01", SpecialTokens::kOrdinary).front(), 5);
  EXPECT_NEAR(result.perplexity, sum, 1e-6);
}

constexpr const char* kTask{R"({"id": "1", "task": "add", "kind": "final", "answer": "9",
  "messages": [{"role": "user", "content": "Add 3 and 6."}], "tools": [], "developer": "", "date": "2025-06-28",
  "level": "low", "solved_by_checkpoint": true})"};

std::string one_line(std::string text) {
  std::erase(text, '\n');
  return text;
}

// Returns whether text `said` or call `called` solves a task of this kind, whose answer is `expected`.
bool solves(const std::string& said, std::optional<std::string> called, const std::string& expected) {
  Task task = read_tasks(one_line(kTask), "tasks").front();
  task.called = std::move(called);
  task.answer = expected;
  ScriptedBackend backend(kTinyConfig, 3, kTokenizer.encode(said, SpecialTokens::kRecognise));
  const Capacity capacity{1024, 1};
  const ResolvedSettings setup = resolve({});
  Engine engine(backend, kTokenizer,
                engine_options(setup, backend_options(kTinyConfig, setup, capacity), capacity));
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.stop.tokens = {*kTokenizer.special("<|return|>"), *kTokenizer.special("<|call|>")};
  request.stop.max_tokens = 100;
  return run_tasks(engine, kTokenizer, {task}, {request}).front().is_solved;
}

TEST(EvalTasks, ALineIsReadWithItsConversation) {
  const std::vector<Task> tasks = read_tasks(one_line(kTask) + "\n\n" + one_line(kTask), "tasks");
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].answer, "9");
  EXPECT_EQ(tasks[0].solved_by_checkpoint, true);
  EXPECT_FALSE(tasks[0].called);
  EXPECT_EQ(tasks[0].conversation.messages.back().text, "Add 3 and 6.");
}

TEST(EvalTasks, ABadLineIsNamed) {
  for (const auto& [text, fault] :
       {std::pair{"\n{", "tasks, line 2: it is not valid JSON"}, {"{}", "tasks, line 1:"}})
    EXPECT_THAT(error_of([&lines = text] { read_tasks(lines, "tasks"); }), HasSubstr(fault)) << text;
}

TEST(EvalTasks, TheFinalTextMustBeTheAnswerExactly) {
  EXPECT_TRUE(solves("<|channel|>final<|message|>9<|return|>", {}, "9"));
  EXPECT_TRUE(
      solves("<|channel|>analysis<|message|>8<|end|><|start|>assistant<|channel|>final<|message|>9<|return|>",
             {}, "9"));
  EXPECT_FALSE(solves("<|channel|>final<|message|>9.<|return|>", {}, "9"));
  EXPECT_FALSE(solves("<|channel|>analysis<|message|>9<|end|>", {}, "9"));
}

TEST(EvalTasks, AnAnswerThatDoesNotEndIsNone) {
  EXPECT_FALSE(solves("<|channel|>final<|message|>9", {}, "9"));
}

TEST(EvalTasks, ACallMustBeOfTheFunctionWithTheArguments) {
  const std::string call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>";
  EXPECT_TRUE(solves(call, "functions.f", "{}"));
  EXPECT_FALSE(solves(call, "functions.g", "{}"));
  EXPECT_FALSE(solves(call, "functions.f", "{ }"));
  EXPECT_FALSE(solves(call, {}, "{}"));
}

TEST(EvalGolden, ABackendThatSaysSomethingElseIsOutsideTheTolerance) {
  ScriptedBackend backend(kTinyConfig, 0, {0});
  GoldenSet golden = read_golden(test::source_path("tests/golden/golden.json"));
  golden.prompts.resize(1);
  const BackendOptions room = backend_options(kTinyConfig, resolve({}), {longest(golden), 1});
  const GoldenTolerance tolerance{};
  const std::vector<GoldenResult> results = compare_golden(backend, room, {golden, tolerance});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_FALSE(results[0].is_within);
  EXPECT_EQ(results[0].difference.greedy_at, 0);
}

}  // namespace
}  // namespace nibble::cli
