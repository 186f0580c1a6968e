#include "cli/measure/coherence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "setup/model/model.h"
#include "tests/cli/scripted_backend.h"
#include "tests/folders.h"

namespace nibble::cli {
namespace {

TEST(Coherence, TheNumberIsRightOnlyAsAWholeNumber) {
  for (const char* answer : {"42", "17 + 25 = 42.", "It is **42**", "1742, no: 42"})
    EXPECT_TRUE(is_right(answer)) << answer;
  for (const char* answer : {"", "4 2", "142", "421", "422 142", "forty-two"})
    EXPECT_FALSE(is_right(answer)) << answer;
}

TEST(Coherence, ABackendThatRepeatsOneTokenIsDoubtful) {
  const Model model = open_model(test::source_path("models/tiny-gpt-oss"), {});
  ScriptedBackend backend(model.config, 1, {TokenId{0}});  // equal logits: the likeliest is the first, 0
  const BackendOptions room{.num_pages = 64, .max_batch_tokens = 64};
  const Coherence coherence = ask(backend, room, model, {});
  ASSERT_TRUE(coherence.answer) << coherence.reason;
  EXPECT_FALSE(is_right(*coherence.answer));
  EXPECT_THAT(coherence_line(coherence),
              testing::StartsWith("- coherence: DOUBTFUL: \"What is 17 + 25?\" is "));
  EXPECT_EQ(to_json(coherence)["is_right"], false);
}

TEST(Coherence, ALineShowsTheBeginningOfALongAnswerAndEscapesControlCharacters) {
  EXPECT_EQ(coherence_line({.answer = "a\n\"42\""}),
            "- coherence: right: \"What is 17 + 25?\" is answered with \"a\\n\\\"42\\\"\"\n");
  EXPECT_LT(coherence_line({.answer = std::string(10'000, 'x')}).size(), 300u);
}

TEST(Coherence, WithoutAnAnswerTheLineHasTheReasonAndTheRecordHasNull) {
  EXPECT_EQ(coherence_line({.reason = "the weights are random"}),
            "- coherence: not checked: the weights are random\n");
  EXPECT_EQ(coherence_line({}), "");
  EXPECT_TRUE(to_json(Coherence{.reason = "no vocabulary"}).is_null());
}

}  // namespace
}  // namespace nibble::cli
