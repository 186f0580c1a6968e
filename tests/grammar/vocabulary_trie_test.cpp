#include "grammar/vocabulary_trie.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/grammar/vocabularies.h"
#include "text/utf8.h"

namespace nibble::grammar {
namespace {

TEST(VocabularyTrie, HasEveryOrdinaryTokenAtItsBytes) {
  const auto nodes = tiny_vocabulary().nodes();
  std::string path;
  std::set<TokenId> found;
  for (size_t at = 0; at < nodes.size(); ++at) {
    path.resize(nodes[at].depth - 1u);
    path += static_cast<char>(nodes[at].byte);
    EXPECT_LE(at + nodes[at].num_below, nodes.size());
    if (nodes[at].token == VocabularyTrie::kNoToken) continue;
    const auto token = static_cast<TokenId>(nodes[at].token);
    EXPECT_EQ(path, tiny_tokenizer().bytes(token));
    EXPECT_TRUE(found.insert(token).second);
  }
  for (TokenId token = 0; token < tiny_tokenizer().num_tokens(); ++token)
    EXPECT_EQ(found.contains(token),
              !tiny_tokenizer().bytes(token).empty() && !tiny_tokenizer().is_special(token));
}

TEST(VocabularyTrie, ContentMasksAndTheOtherTreeShareTheTokensOut) {
  std::set<TokenId> others;
  for (const auto& node : tiny_vocabulary().other_nodes())
    if (node.token != VocabularyTrie::kNoToken) others.insert(static_cast<TokenId>(node.token));
  for (const uint32_t most : {0u, 1u, 2u, 3u, 8u, 15u, 16u, 17u, 20u, 40u, 255u, 256u, kUnlimited}) {
    std::vector<uint32_t> mask(tiny_vocabulary().num_mask_words());
    tiny_vocabulary().add_content(most, mask);
    for (TokenId token = 0; token < tiny_tokenizer().num_tokens(); ++token) {
      const std::string_view bytes = tiny_tokenizer().bytes(token);
      if (bytes.empty() || tiny_tokenizer().is_special(token)) continue;
      const bool is_content =
          well_formed_prefix(bytes) == bytes.size() && std::none_of(bytes.begin(), bytes.end(), [](char c) {
            return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\' || c == 0x7F;
          });
      EXPECT_EQ(others.contains(token), !is_content) << token;
      const size_t num = is_content ? Trie::code_points_of(bytes).size() : 0;
      EXPECT_EQ(has_bit(mask, token), is_content && num <= most) << bytes << " among " << most;
    }
  }
}

}  // namespace
}  // namespace nibble::grammar
