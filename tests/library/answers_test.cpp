// Tests answers of the C API: what a session says, remembers, constrains and cancels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/library/api.h"

namespace nibble::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kSum{"What is 17 + 25?"};
constexpr const char* kSumAnswer{"17 + 25 = 42."};

// One model for all tests of the file: loading it takes longer than an answer.
class LibraryAnswers : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = new ModelPointer(load_tiny()); }
  static void TearDownTestSuite() { delete model_; }
  static const ModelPointer& model() { return *model_; }

  // Starts an answer of at least 400 tokens, so that it still runs when a test looks at it.
  static void start_long_answer(const SessionPointer& session) {
    ASSERT_EQ(nibble_session_set_json_schema(
                  session.get(),
                  R"({"type": "array", "items": {"enum": [1, 2]}, "minItems": 400, "maxItems": 400})"),
              NIBBLE_OK);
    ASSERT_EQ(nibble_session_send(session.get(), "Go on."), NIBBLE_OK) << nibble_last_error();
  }

 private:
  static ModelPointer* model_;
};
ModelPointer* LibraryAnswers::model_{nullptr};

TEST_F(LibraryAnswers, AQuestionIsAnsweredWithReasoningTextAndCounts) {
  const SessionPointer session = open_session(model());
  const WholeAnswer answer = ask(session, kSum);
  EXPECT_EQ(answer.text, kSumAnswer);
  EXPECT_FALSE(answer.reasoning.empty());
  EXPECT_EQ(answer.finished.finish, NIBBLE_FINISH_STOP_TOKEN);
  EXPECT_EQ(answer.finished.num_output_tokens, static_cast<int32_t>(answer.tokens.size()));
  EXPECT_GT(answer.finished.num_prompt_tokens, 10);
  EXPECT_GT(answer.finished.prefill_seconds, 0);
  EXPECT_GT(answer.finished.decode_seconds, 0);
}

TEST_F(LibraryAnswers, TokensOfAllEventsAreTheWholeAnswer) {
  const SessionPointer session = open_session(model());
  const WholeAnswer answer = ask(session, kSum);
  std::string text(4096, '\0');
  size_t bytes = text.size();
  ASSERT_EQ(
      nibble_model_decode(model().get(), answer.tokens.data(), answer.tokens.size(), text.data(), &bytes),
      NIBBLE_OK);
  text.resize(bytes);
  EXPECT_THAT(text, StartsWith("<|channel|>analysis<|message|>" + answer.reasoning + "<|end|>"));
  EXPECT_THAT(text, testing::EndsWith(answer.text + "<|return|>"));
}

TEST_F(LibraryAnswers, ASeedDeterminesTheAnswer) {
  const Pairs options{{"temperature", "1.5"}, {"seed", "7"}, {"max-tokens", "40"}};
  const WholeAnswer first = ask(open_session(model(), options), kSum);
  const WholeAnswer second = ask(open_session(model(), options), kSum);
  const WholeAnswer other = ask(open_session(model(), {{"temperature", "1.5"}, {"seed", "8"}}), kSum);
  EXPECT_EQ(first.tokens, second.tokens);
  EXPECT_NE(first.tokens, other.tokens);
}

TEST_F(LibraryAnswers, TheSecondTurnSeesTheFirstAndReusesItsCache) {
  const SessionPointer session = open_session(model());
  size_t before = 0, after = 0;
  ASSERT_EQ(nibble_session_add(session.get(), "user", kSum), NIBBLE_OK);
  ASSERT_EQ(nibble_session_count_tokens(session.get(), &before), NIBBLE_OK);
  ASSERT_EQ(nibble_session_answer(session.get()), NIBBLE_OK);
  const WholeAnswer first = take_answer(session);
  EXPECT_EQ(first.finished.num_prompt_tokens, static_cast<int32_t>(before));
  ASSERT_EQ(nibble_session_add(session.get(), "user", "What is 2 + 3?"), NIBBLE_OK);
  ASSERT_EQ(nibble_session_count_tokens(session.get(), &after), NIBBLE_OK);
  EXPECT_GT(after, before + 10) << "the answer is in the prompt";
  ASSERT_EQ(nibble_session_answer(session.get()), NIBBLE_OK);
  const WholeAnswer second = take_answer(session);
  EXPECT_EQ(second.finished.num_prompt_tokens, static_cast<int32_t>(after));
  EXPECT_GT(second.finished.num_cached_tokens, 0);
  ASSERT_EQ(nibble_session_clear(session.get()), NIBBLE_OK);
  ASSERT_EQ(nibble_session_add(session.get(), "user", kSum), NIBBLE_OK);
  ASSERT_EQ(nibble_session_count_tokens(session.get(), &after), NIBBLE_OK);
  EXPECT_EQ(after, before);
}

TEST_F(LibraryAnswers, TwoSessionsInTwoThreadsDoNotMixTheirEvents) {
  const std::string alone[2] = {ask(open_session(model()), kSum).text,
                                ask(open_session(model()), "Sort 31, 5, 88.").text};
  std::string together[2];
  const auto run = [&](int index, const char* question) {
    const SessionPointer session = open_session(model());
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(nibble_session_clear(session.get()), NIBBLE_OK);
      together[index] = ask(session, question).text;
    }
  };
  std::thread first(run, 0, kSum), second(run, 1, "Sort 31, 5, 88.");
  first.join();
  second.join();
  EXPECT_EQ(together[0], alone[0]);
  EXPECT_EQ(together[1], alone[1]);
  EXPECT_NE(alone[0], alone[1]);
}

TEST_F(LibraryAnswers, AnotherThreadCancelsAnAnswerWhileItsEventsAreAwaited) {
  const SessionPointer session = open_session(model());
  start_long_answer(session);
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    nibble_session_cancel(session.get());
  });
  const WholeAnswer answer = take_answer(session);
  canceller.join();
  EXPECT_EQ(answer.finished.finish, NIBBLE_FINISH_CANCELLED);
  nibble_session_cancel(session.get());  // does nothing: no answer runs
  ASSERT_EQ(nibble_session_set_json_schema(session.get(), nullptr), NIBBLE_OK);
  ASSERT_EQ(nibble_session_clear(session.get()), NIBBLE_OK);
  EXPECT_EQ(ask(session, kSum).text, kSumAnswer);
}

TEST_F(LibraryAnswers, ASessionMayBeClosedWhileItAnswersAndBeforeItsModel) {
  ModelPointer own = load_tiny();
  SessionPointer session = open_session(own);
  SessionPointer other = open_session(own);
  start_long_answer(session);
  session.reset();
  own.reset();
  EXPECT_EQ(ask(other, kSum).text, kSumAnswer) << "the model lives until its last session is closed";
}

TEST_F(LibraryAnswers, WhileAnAnswerRunsTheSessionIsBusyAndWaitingTimesOut) {
  const SessionPointer session = open_session(model());
  start_long_answer(session);
  EXPECT_EQ(nibble_session_send(session.get(), kSum), NIBBLE_BUSY);
  EXPECT_THAT(nibble_last_error(), HasSubstr("has not ended"));
  EXPECT_EQ(nibble_session_set(session.get(), "temperature", "1"), NIBBLE_BUSY);
  EXPECT_EQ(nibble_session_add(session.get(), "user", kSum), NIBBLE_BUSY);
  EXPECT_EQ(nibble_session_clear(session.get()), NIBBLE_BUSY);
  size_t count = 0;
  EXPECT_EQ(nibble_session_count_tokens(session.get(), &count), NIBBLE_BUSY);
  nibble_event event{};
  event.struct_bytes = sizeof event;
  int num_timeouts = 0;
  for (int i = 0; i < 1000; ++i)
    if (nibble_session_next_event(session.get(), 0, &event) == NIBBLE_TIMEOUT) ++num_timeouts;
  EXPECT_GT(num_timeouts, 0);
  nibble_session_cancel(session.get());
  take_answer(session);
}

TEST_F(LibraryAnswers, AStopStringAndALimitEndTheAnswerEarly) {
  const SessionPointer session = open_session(model(), {{"temperature", "0"}, {"stop", "= "}});
  const WholeAnswer stopped = ask(session, kSum);
  EXPECT_EQ(stopped.text, "17 + 25 ");
  EXPECT_EQ(stopped.finished.finish, NIBBLE_FINISH_STOP_STRING);
  ASSERT_EQ(nibble_session_set(session.get(), "stop", nullptr), NIBBLE_OK);
  ASSERT_EQ(nibble_session_set(session.get(), "max-tokens", "5"), NIBBLE_OK);
  const WholeAnswer limited = ask(session, kSum);
  EXPECT_EQ(limited.tokens.size(), 5u);
  EXPECT_EQ(limited.finished.finish, NIBBLE_FINISH_MAX_TOKENS);
}

TEST_F(LibraryAnswers, AQuestionWhoseAnswerIsEmptyIsForgotten) {
  const SessionPointer session = open_session(model(), {{"temperature", "0"}, {"max-tokens", "3"}});
  size_t before = 0, after = 0;
  ASSERT_EQ(nibble_session_count_tokens(session.get(), &before), NIBBLE_OK);
  EXPECT_EQ(ask(session, kSum).text, "");
  ASSERT_EQ(nibble_session_count_tokens(session.get(), &after), NIBBLE_OK);
  EXPECT_EQ(after, before);
}

TEST_F(LibraryAnswers, ASchemaConstrainsTheAnswerUntilItIsRemoved) {
  const SessionPointer session = open_session(model());
  ASSERT_EQ(nibble_session_set_json_schema(session.get(), R"({"enum": [{"sum": 1}, {"sum": 2}]})"),
            NIBBLE_OK);
  EXPECT_THAT(ask(session, kSum).text, testing::MatchesRegex("\\{\"sum\": ?[12]\\}"));
  ASSERT_EQ(nibble_session_set_json_schema(session.get(), nullptr), NIBBLE_OK);
  ASSERT_EQ(nibble_session_clear(session.get()), NIBBLE_OK);
  EXPECT_EQ(ask(session, kSum).text, kSumAnswer);
  // The option replaces the grammar that was set as text, so the missing file is an error.
  ASSERT_EQ(nibble_session_set_grammar(session.get(), "root ::= \"yes\" | \"no\""), NIBBLE_OK);
  ASSERT_EQ(nibble_session_set(session.get(), "grammar", "no/such-file"), NIBBLE_OK);
  EXPECT_EQ(nibble_session_send(session.get(), kSum), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("no/such-file"));
  ASSERT_EQ(nibble_session_set_grammar(session.get(), "root ::= \"yes\" | \"no\""), NIBBLE_OK);
  EXPECT_THAT(ask(session, kSum).text, testing::AnyOf("yes", "no"));
}

TEST_F(LibraryAnswers, TokensAreContinuedAsRawText) {
  const std::string text{"It was a dark and"};
  std::vector<int32_t> tokens(64);
  size_t count = tokens.size();
  ASSERT_EQ(nibble_model_encode(model().get(), text.data(), text.size(), tokens.data(), &count), NIBBLE_OK);
  const SessionPointer session = open_session(model(), {{"temperature", "0"}, {"max-tokens", "8"}});
  ASSERT_EQ(nibble_session_send_tokens(session.get(), tokens.data(), count), NIBBLE_OK)
      << nibble_last_error();
  const WholeAnswer answer = take_answer(session);
  EXPECT_EQ(answer.finished.num_prompt_tokens, static_cast<int32_t>(count));
  EXPECT_EQ(answer.tokens.size(), static_cast<size_t>(answer.finished.num_output_tokens));
  EXPECT_TRUE(answer.reasoning.empty());
  EXPECT_FALSE(answer.text.empty());
}

// The miniature model was trained to call this function.
constexpr const char* kTools{
    R"([{"type": "function", "function": {"name": "get_weather", "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                       "required": ["city"]}}}])"};

TEST_F(LibraryAnswers, ACallOfAFunctionIsOneEventAndItsResultContinuesTheTurn) {
  const SessionPointer session = open_session(model());
  ASSERT_EQ(nibble_session_set_tools(session.get(), kTools), NIBBLE_OK) << nibble_last_error();
  const WholeAnswer call = ask(session, "What is the weather in Paris?");
  ASSERT_EQ(call.call_name, "get_weather") << call.text;
  EXPECT_EQ(call.call_id, "call_1");
  EXPECT_THAT(call.arguments, HasSubstr("city"));
  EXPECT_EQ(call.finished.finish, NIBBLE_FINISH_STOP_TOKEN);
  size_t before = 0, after = 0;
  ASSERT_EQ(nibble_session_count_tokens(session.get(), &before), NIBBLE_OK);
  ASSERT_EQ(nibble_session_add_json(session.get(),
                                    R"({"role": "tool", "tool_call_id": "call_1", "content": "12 degrees"})"),
            NIBBLE_OK);
  ASSERT_EQ(nibble_session_count_tokens(session.get(), &after), NIBBLE_OK) << nibble_last_error();
  EXPECT_GT(after, before);
  ASSERT_EQ(nibble_session_answer(session.get()), NIBBLE_OK);
  EXPECT_FALSE(take_answer(session).text.empty());
}

}  // namespace
}  // namespace nibble::test
