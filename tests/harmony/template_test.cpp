// Compares rendered chats with texts that transformers rendered from the chat template of the bundled
// checkpoint (tests/golden/template_vectors.json).
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "harmony/chat.h"
#include "harmony/render.h"
#include "tests/harmony/template_differences.h"
#include "tests/harmony/vocabulary.h"

namespace nibble::harmony {
namespace {

std::vector<Json> template_vectors() {
  std::ifstream in(test::source_path("tests/golden/template_vectors.json"));
  const std::string text(std::istreambuf_iterator<char>(in), {});
  return parse_json(text, "template_vectors.json").get<std::vector<Json>>();
}

TEST(ChatTemplate, GivesTheSameTextButForItsKnownDifferences) {
  for (const Json& vector : template_vectors()) {
    const Rendered rendered = render(to_conversation(chat_from_json(vector)), tiny(), {});
    EXPECT_EQ(rendered.text, as_official_renderer(vector["text"].get<std::string>(), vector["messages"]));
  }
}

TEST(ChatTemplate, GivesTheSameIdsWhereTheTextIsTheSame) {
  int num_same = 0;
  for (const Json& vector : template_vectors()) {
    const Rendered rendered = render(to_conversation(chat_from_json(vector)), tiny(), {});
    if (rendered.text != vector["text"].get<std::string>()) continue;
    EXPECT_EQ(rendered.tokens, vector["ids"].get<std::vector<TokenId>>()) << rendered.text;
    ++num_same;
  }
  EXPECT_EQ(num_same, 7);
}

// The ids of the vectors were computed by Hugging Face's tokenizers.
TEST(ChatTemplate, ItsTextHasTheIdsOfTheVectors) {
  const std::vector<Json> vectors = template_vectors();
  for (const Json& vector : vectors)
    EXPECT_EQ(ids_of(vector["text"].get<std::string>(), tiny()), vector["ids"].get<std::vector<TokenId>>());
  EXPECT_EQ(vectors.size(), 12u);
}

}  // namespace
}  // namespace nibble::harmony
