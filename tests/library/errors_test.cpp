// Tests that the C API refuses invalid calls with the right status, and with a message that says what is
// wrong and what is accepted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/library/api.h"

namespace nibble::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(LibraryErrors, AnUnknownOptionAndAWrongValueAreRefusedWhenTheyAreSet) {
  const OptionsPointer options = options_with({});
  EXPECT_EQ(nibble_options_set(options.get(), "contxt", "1"), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("no option 'contxt'"));
  EXPECT_EQ(nibble_options_set(options.get(), "context", "many"), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), AllOf(HasSubstr("context"), HasSubstr("many"), HasSubstr("whole number")));
  EXPECT_EQ(nibble_options_set(options.get(), "nodes", "2"), NIBBLE_BAD_INPUT);
  EXPECT_EQ(nibble_options_set(options.get(), "context", nullptr), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("'value' is NULL"));
}

TEST(LibraryErrors, AModelThatDoesNotExistIsRefusedWithTheProgramsWords) {
  nibble_model* model = nullptr;
  EXPECT_EQ(nibble_model_open("no/such-model", nullptr, &model), NIBBLE_BAD_INPUT);
  EXPECT_EQ(model, nullptr);
  EXPECT_THAT(nibble_last_error(),
              AllOf(HasSubstr("model 'no/such-model' not found: looked for"), HasSubstr("hf download")));
}

TEST(LibraryErrors, AContextThatTheModelDoesNotSupportIsRefused) {
  nibble_model* model = nullptr;
  const OptionsPointer options = options_with({{"context", "1048576"}});
  EXPECT_EQ(nibble_model_open(source_path("models/tiny-gpt-oss").c_str(), options.get(), &model),
            NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("at most 131072 tokens"));
}

TEST(LibraryErrors, TheMessageBelongsToTheThread) {
  const OptionsPointer options = options_with({});
  ASSERT_EQ(nibble_options_set(options.get(), "contxt", "1"), NIBBLE_BAD_INPUT);
  std::string other{"unset"};
  std::thread([&] { other = nibble_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_THAT(nibble_last_error(), HasSubstr("contxt"));
}

TEST(LibraryErrors, NullHandlesAreRefused) {
  EXPECT_EQ(nibble_options_create(nullptr), NIBBLE_BAD_INPUT);
  EXPECT_EQ(nibble_session_open(nullptr, nullptr, nullptr), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("'model' is NULL"));
  EXPECT_EQ(nibble_session_send(nullptr, "x"), NIBBLE_BAD_INPUT);
  EXPECT_EQ(nibble_session_next_event(nullptr, 0, nullptr), NIBBLE_BAD_INPUT);
  nibble_session_cancel(nullptr);
  nibble_session_close(nullptr);
  nibble_model_close(nullptr);
  nibble_options_free(nullptr);
}

class LibrarySessionErrors : public testing::Test {
 protected:
  ModelPointer model_{load_tiny()};
  SessionPointer session_{open_session(model_)};
};

TEST_F(LibrarySessionErrors, OptionsOfTheModelAreRefused) {
  EXPECT_EQ(nibble_session_set(session_.get(), "context", "64"), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("belongs to the model"));
  nibble_session* other = nullptr;
  EXPECT_EQ(nibble_session_open(model_.get(), options_with({{"threads", "1"}}).get(), &other),
            NIBBLE_BAD_INPUT);
  EXPECT_EQ(other, nullptr);
}

TEST_F(LibrarySessionErrors, TextThatIsNotUtf8IsRefusedWithItsPlace) {
  EXPECT_EQ(nibble_session_send(session_.get(), "abc\xff"), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("'text' is not valid UTF-8 at byte 3 (0xFF)"));
}

TEST_F(LibrarySessionErrors, AQuestionThatIsTooLongIsRefusedAndForgotten) {
  const std::string question(20'000, 'x');
  EXPECT_EQ(nibble_session_send(session_.get(), question.c_str()), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("the context 1024"));
  EXPECT_EQ(ask(session_, "What is 17 + 25?").text, "17 + 25 = 42.");
}

TEST_F(LibrarySessionErrors, MessagesThatCanNotBeReadAreRefused) {
  EXPECT_EQ(nibble_session_add(session_.get(), "tool", "12"), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("nibble_session_add_json"));
  EXPECT_EQ(nibble_session_add_json(session_.get(), "{"), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("the message is not valid JSON"));
  EXPECT_EQ(nibble_session_add_json(session_.get(), R"({"role": "bird"})"), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("message.role"));
  EXPECT_EQ(nibble_session_set_tools(session_.get(), "{}"), NIBBLE_BAD_INPUT);
  EXPECT_EQ(nibble_session_answer(session_.get()), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("no messages"));
}

TEST_F(LibrarySessionErrors, ASchemaThatCanNotBeCompiledIsRefusedWhenTheAnswerStarts) {
  ASSERT_EQ(nibble_session_set_json_schema(session_.get(), R"({"type": "bird"})"), NIBBLE_OK);
  EXPECT_EQ(nibble_session_send(session_.get(), "x"), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("schema: 'type' at #"));
}

TEST_F(LibrarySessionErrors, TokensOutsideTheVocabularyAreRefused) {
  const int32_t wrong[]{1 << 24};
  EXPECT_EQ(nibble_session_send_tokens(session_.get(), wrong, 1), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("not in the vocabulary"));
  EXPECT_EQ(nibble_session_send_tokens(session_.get(), nullptr, 0), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("the prompt is empty"));
  size_t bytes = 0;
  EXPECT_EQ(nibble_model_decode(model_.get(), wrong, 1, nullptr, &bytes), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("tokens[0] is 16777216"));
}

TEST_F(LibrarySessionErrors, EventsWithoutAnAnswerAreRefused) {
  nibble_event event{};
  event.struct_bytes = sizeof event;
  EXPECT_EQ(nibble_session_next_event(session_.get(), 0, &event), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("no answer runs"));
  event.struct_bytes = 0;
  EXPECT_EQ(nibble_session_next_event(session_.get(), 0, &event), NIBBLE_BAD_INPUT);
  EXPECT_THAT(nibble_last_error(), HasSubstr("sizeof(nibble_event)"));
}

// Simulates a program that was compiled when nibble_event had fewer members.
TEST_F(LibrarySessionErrors, AnEventIsNotWrittenBeyondTheSizeThatTheProgramKnows) {
  ASSERT_EQ(nibble_session_send(session_.get(), "What is 17 + 25?"), NIBBLE_OK);
  nibble_event event{};
  std::memset(static_cast<void*>(&event), 0x5A, sizeof event);
  event.struct_bytes = offsetof(nibble_event, call_name);
  const char* const untouched = event.call_name;
  ASSERT_EQ(nibble_session_next_event(session_.get(), 60'000, &event), NIBBLE_OK);
  EXPECT_EQ(event.struct_bytes, offsetof(nibble_event, call_name));
  EXPECT_GT(event.type, 0);
  EXPECT_EQ(std::strlen(event.text), event.text_bytes);
  EXPECT_EQ(event.call_name, untouched);
}

TEST_F(LibrarySessionErrors, ABufferThatIsTooSmallIsLeftAloneAndItsSizeIsReported) {
  const std::string text{"What is 17 + 25?"};
  size_t needed = 0;
  ASSERT_EQ(nibble_model_encode(model_.get(), text.data(), text.size(), nullptr, &needed), NIBBLE_OK);
  ASSERT_GT(needed, 2u);
  std::vector<int32_t> tokens(needed, -7);
  size_t count = needed - 1;
  EXPECT_EQ(nibble_model_encode(model_.get(), text.data(), text.size(), tokens.data(), &count),
            NIBBLE_TOO_SMALL);
  EXPECT_EQ(count, needed);
  EXPECT_EQ(tokens, std::vector<int32_t>(needed, -7));
  ASSERT_EQ(nibble_model_encode(model_.get(), text.data(), text.size(), tokens.data(), &count), NIBBLE_OK);
  std::string back(text.size(), ' ');
  size_t bytes = back.size();
  ASSERT_EQ(nibble_model_decode(model_.get(), tokens.data(), count, back.data(), &bytes), NIBBLE_OK);
  EXPECT_EQ(back, text);
}

TEST_F(LibrarySessionErrors, ControlTokensAreRecognisedOnlyOnRequest) {
  const std::string text{"<|start|>"};
  size_t ordinary = 0, control = 0;
  ASSERT_EQ(nibble_model_encode(model_.get(), text.data(), text.size(), nullptr, &ordinary), NIBBLE_OK);
  ASSERT_EQ(nibble_model_encode_controls(model_.get(), text.data(), text.size(), nullptr, &control),
            NIBBLE_OK);
  EXPECT_EQ(control, 1u);
  EXPECT_GT(ordinary, 1u);
}

TEST(LibraryNames, StatusesAndTheVersionHaveNames) {
  EXPECT_STREQ(nibble_status_name(NIBBLE_OK), "ok");
  EXPECT_STREQ(nibble_status_name(NIBBLE_TOO_SMALL), "too small");
  EXPECT_STREQ(nibble_status_name(99), "unknown");
  EXPECT_THAT(nibble_version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

}  // namespace
}  // namespace nibble::test
