// The template of the model's repository is not part of this repository, so no test compares with it.
// Instead, a text that shares no line with that template must differ from line 1 on, and the miniature's
// template must be recognised.
#include "harmony/chat_template.h"

#include <gtest/gtest.h>

#include "core/files/mapped_file.h"
#include "tests/folders.h"

namespace nibble::harmony {
namespace {

std::string tiny_template() {
  return read_text_file(test::source_path("models/tiny-gpt-oss/chat_template.jinja"));
}

TEST(ReleasedTemplate, TheMiniaturesIsKnownAlsoWithOtherEndsOfLines) {
  EXPECT_FALSE(difference_from_released(tiny_template()));
  std::string windows;
  for (const char c : tiny_template()) windows += c == '\n' ? std::string(" \r\n") : std::string(1, c);
  EXPECT_FALSE(difference_from_released(windows + "\n\n"));
}

// The released template begins with a comment of two lines: these are facts about the published file.
TEST(ReleasedTemplate, TheFirstLineThatDiffersIsQuoted) {
  const std::string begin =
      "{#-\n  In addition to the normal inputs of `messages` and `tools`, this template also accepts the\n";
  const auto difference = difference_from_released(begin + "  another\x07 line\n");
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->line, 3);
  EXPECT_EQ(difference->text, "  another\x07 line");
}

TEST(ReleasedTemplate, AnEmptyOrChangedTemplateDiffersFromItsFirstLineOn) {
  const auto empty = difference_from_released("");
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->line, 1);
  EXPECT_EQ(empty->text, "");
  const auto changed = difference_from_released(tiny_template() + "{{ 'more' }}");
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->line, 1);  // the miniature's template shares no line with the released one
}

}  // namespace
}  // namespace nibble::harmony
