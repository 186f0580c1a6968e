#include "cli/terminal/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/errors/error.h"
#include "setup/plan/capacity.h"
#include "setup/start/resolve.h"
#include "tests/cli/scripted_backend.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "turn/new_request.h"

namespace nibble::cli {
namespace {

using harmony::AnswerPart;

// Asks with the vocabulary of the miniature model. A scripted backend gives the wanted answer.
class AnswerTest : public testing::Test {
 protected:
  Answer ask(const std::string& said, const std::vector<std::string>& stop, bool is_raw = false) {
    const Settings settings;
    const ResolvedSettings setup = resolve(settings);
    const std::vector<TokenId> prompt{1, 2, 3};
    ScriptedBackend backend(config_, prompt.size(), tokenizer_.encode(said, SpecialTokens::kRecognise));
    // An answer that is not cancelled ends at this context, long after it should have been cancelled.
    const Capacity capacity{131'072, 1};
    Engine engine(backend, tokenizer_,
                  engine_options(setup, backend_options(config_, setup, capacity), capacity));
    const GenerationRequest request = make_request(prompt, settings, config_, tokenizer_, capacity.context);
    Listener listener;
    listener.on_text = [this](AnswerPart part, std::string_view text) { heard_[part] += text; };
    listener.wants_to_stop = [this] { return wants_to_stop_; };
    return is_raw ? stream_raw(engine, request, stop, listener)
                  : stream_harmony(engine, tokenizer_, request, stop, listener);
  }

  Config config_ = read_config(test::source_path("models/tiny-gpt-oss/config.json"));
  Tokenizer tokenizer_ = Tokenizer::open(test::source_path("models/tiny-gpt-oss"));
  std::map<AnswerPart, std::string> heard_;
  bool wants_to_stop_{false};
};

constexpr const char* kAnswer{
    "<|channel|>analysis<|message|>Add them. END of "
    "thought.<|end|><|start|>assistant<|channel|>final<|message|>It is 42. "
    "END it.<|return|>"};

TEST_F(AnswerTest, ReasoningAndAnswerAreSeparated) {
  const Answer answer = ask(kAnswer, {});
  EXPECT_EQ(answer.text, "It is 42. END it.");
  EXPECT_EQ(answer.reasoning, "Add them. END of thought.");
  EXPECT_EQ(heard_[AnswerPart::kAnswer], answer.text);
  EXPECT_EQ(heard_[AnswerPart::kReasoning], answer.reasoning);
  EXPECT_EQ(answer.messages.size(), 2u);
  EXPECT_EQ(answer.finished.reason, FinishReason::kStopToken);
}

TEST_F(AnswerTest, AStopStringIsLookedForInTheAnswerAndNotInThoughts) {
  const Answer answer = ask(kAnswer, {" END"});
  EXPECT_EQ(answer.text, "It is 42.");
  EXPECT_EQ(answer.reasoning, "Add them. END of thought.");
  EXPECT_EQ(heard_[AnswerPart::kAnswer], "It is 42.");
  EXPECT_EQ(answer.finished.reason, FinishReason::kStopString);
}

TEST_F(AnswerTest, APossibleStopStringIsShownAtTheEnd) {
  EXPECT_EQ(ask("<|channel|>final<|message|>It is EN<|return|>", {"END"}).text, "It is EN");
}

TEST_F(AnswerTest, ACallOfAToolIsNoAnswer) {
  const Answer answer =
      ask("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>", {});
  EXPECT_EQ(answer.text, "");
  EXPECT_EQ(heard_[AnswerPart::kCall], "{\"a\": 1}");
}

TEST_F(AnswerTest, ARawTextIsAllAnswer) {
  const Answer answer = ask("once upon a time<|return|>", {" a"}, /*is_raw=*/true);
  EXPECT_EQ(answer.text, "once upon");
  EXPECT_TRUE(answer.messages.empty());
}

TEST_F(AnswerTest, AListenerThatHasEnoughEndsIt) {
  wants_to_stop_ = true;
  // The script starts again at its end, so the answer never ends unless it is cancelled.
  const Answer answer = ask("<|channel|>final<|message|>for ever and ever", {});
  EXPECT_EQ(answer.finished.reason, FinishReason::kCancelled);
}

TEST_F(AnswerTest, APromptThatLeavesNoRoomIsRefusedWithTheFigures) {
  EXPECT_THAT(
      error_of([&] { make_request(std::vector<TokenId>(100), {}, config_, tokenizer_, 100); }),
      testing::AllOf(testing::HasSubstr("the prompt has 100 tokens"), testing::HasSubstr("--context")));
}

}  // namespace
}  // namespace nibble::cli
