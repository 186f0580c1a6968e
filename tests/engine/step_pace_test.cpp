#include "engine/step_pace.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/toy_engine.h"

namespace nibble {
namespace {

// Return the seconds of a step on two machines: a constant time for decoding, plus a time that grows with
// prompt rows.
double cpu(int num_prompt_rows) { return 0.010 + 0.001 * num_prompt_rows; }
// On a GPU the first rows read most experts, so further rows are cheaper.
double gpu(int num_prompt_rows) { return 0.005 + 0.002 * std::sqrt(num_prompt_rows); }

int rows_after(StepPace& pace, double (*machine)(int), int num_steps) {
  for (int step = 0; step < num_steps; ++step) {
    if (step % 4 == 0) pace.learn(8, 0, machine(0));
    pace.learn(8, pace.max_prompt_rows(), machine(pace.max_prompt_rows()));
  }
  return pace.max_prompt_rows();
}

TEST(StepPace, FindsTheRowsThatTakeTheTargetTime) {
  for (const auto machine : {cpu, gpu}) {
    StepPace pace(0.050, 8192);
    const int num_rows = rows_after(pace, machine, 20);
    EXPECT_NEAR(machine(num_rows), 0.050, 0.001);
  }
}

TEST(StepPace, LetsPromptsAdvanceThoughDecodingAloneMissesTheTarget) {
  StepPace pace(0.002, 8192);
  EXPECT_EQ(rows_after(pace, cpu, 20), StepPace::kLeastRows);
}

TEST(StepPace, AllowsAWholeStepWhereThatIsFastEnough) {
  StepPace pace(10, 2048);
  EXPECT_EQ(rows_after(pace, gpu, 20), 2048);
  StepPace narrow(10, 64);
  EXPECT_EQ(narrow.max_prompt_rows(), 64);
}

TEST(StepPace, LearnsNothingFromStepsThatUseLittleOfTheLimit) {
  StepPace pace(0.050, 8192);
  const int num_rows = rows_after(pace, gpu, 20);
  for (int step = 0; step < 10; ++step) pace.learn(8, 4, gpu(4));
  EXPECT_EQ(pace.max_prompt_rows(), num_rows);
}

TEST(StepPace, LearnsNothingFromPromptsAlone) {
  StepPace pace(0.001, 8192);
  pace.learn(0, 8192, 100);
  EXPECT_EQ(pace.max_prompt_rows(), StepPace::kFirstRows);
}

TEST(StepPace, ChangesByAFactorOfTwoAtMostForOneStep) {
  StepPace pace(0.050, 8192);
  pace.learn(8, 256, 1000);  // the step took 1,000 s, as if the machine was suspended
  EXPECT_EQ(pace.max_prompt_rows(), 128);
  pace.learn(8, 128, 1e-9);
  EXPECT_EQ(pace.max_prompt_rows(), 256);
}

// Records the largest number of rows of a step in which a sequence continues an answer.
struct NotingRows : ToyBackend {
  using ToyBackend::ToyBackend;
  void launch(const Batch& batch) override {
    size_t num_rows = 0;
    bool some_decode = false;
    for (const Run& run : batch.runs) {
      num_rows += run.tokens.size();
      some_decode |= run.tokens.size() == 1;
    }
    if (some_decode) most_rows = std::max(most_rows, num_rows);
    ToyBackend::launch(batch);
  }
  size_t most_rows{0};  // to be read after the engine is destroyed
};

TEST(EnginePace, PromptsGetFewRowsWhileAnAnswerRunsAndAnswersStayTheSame) {
  enum class Limit { kNone, kTarget, kRows };
  for (const Limit limit : {Limit::kNone, Limit::kTarget, Limit::kRows}) {
    EngineOptions given{.num_pages = 300, .max_batch_tokens = 512, .max_sequences = 8};
    if (limit == Limit::kTarget) given.itl_target = 1e-9;  // no step is that fast
    if (limit == Limit::kRows) given.max_rows_with_answers = 40;
    NotingRows backend(given, toy_logits, 0);
    {
      Engine engine(backend, tokenizer(), given);
      Answers answers(engine);
      const GenerationRequest chat = request(tokens_of("Once upon a time"), 200);
      GenerationRequest longest = request({}, 5);
      for (int n = 0; n < 900; ++n) longest.prompt.push_back(n % kToyVocab);
      const RequestId first = engine.submit(chat), second = engine.submit(longest);
      EXPECT_EQ(answers.wait_for(first).tokens, run_alone(chat));
      EXPECT_EQ(answers.wait_for(second).tokens, run_alone(longest));
    }
    if (limit == Limit::kNone)
      EXPECT_GT(backend.most_rows, StepPace::kFirstRows + 100u);
    else
      EXPECT_LE(backend.most_rows, limit == Limit::kRows ? 41u : StepPace::kFirstRows + 1u);
  }
}

}  // namespace
}  // namespace nibble
