#include "grammar/vocabulary/vocabulary_trie.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "grammar/languages/unicode_property.h"
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

// Returns the slice of a content token, or std::nullopt for other tokens.
std::optional<size_t> slice_of(std::string_view bytes) {
  if (well_formed_prefix(bytes) != bytes.size()) return std::nullopt;
  const bool has_blank = bytes.starts_with(' ') && bytes != " ";
  ContentKinds kinds = 0;
  for (const char32_t c : Trie::code_points_of(bytes.substr(has_blank ? 1 : 0))) {
    if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F) return std::nullopt;
    kinds |= content_kinds(c, c);
  }
  const auto set = std::find_if(kContentSets.begin(), kContentSets.end(),
                                [&](ContentKinds all) { return (kinds | all) == all; });
  return set - kContentSets.begin() + (has_blank ? std::ssize(kContentSets) : 0);
}

TEST(Content, EveryCharacterIsOfOneKindOrNone) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    const bool is_content = c >= 0x20 && c != '"' && c != '\\' && c != 0x7F;
    ASSERT_EQ(std::popcount(content_kinds(c, c)), is_content ? 1 : 0) << static_cast<uint32_t>(c);
  }
}

TEST(Content, LettersAreWhatPcre2CallsLetters) {
  Fuel fuel(kPropertyFuel);
  const CodePoints& letters = *unicode_property("L", fuel);
  char32_t last = 0x7F;
  for (const CharacterRange& range : kLetterRanges) {
    EXPECT_LT(last, range.first) << "the ranges are in order";
    last = range.last;
    CodePoints here;
    here.add(range.first, range.last);
    EXPECT_EQ(letters.intersection(here), here) << std::hex << static_cast<uint32_t>(range.first);
    EXPECT_EQ(content_kinds(range.first, range.last), kLetterContent);
  }
}

TEST(Content, ARangeHasTheKindsOfItsCharacters) {
  const char32_t ends[]{0xBF,  0xC0,   0xD6,   0xD7,   0xD8,   0x2C1,  0x2C2,   0x300,
                        0x3A3, 0x1680, 0x2000, 0x3040, 0x3041, 0xD7A3, 0x10FFFF};
  for (const char32_t first : ends)
    for (const char32_t last : ends) {
      if (first > last) continue;
      ContentKinds kinds = 0;
      for (char32_t c = first; c <= last; ++c) kinds |= content_kinds(c, c);
      EXPECT_EQ(content_kinds(first, last), kinds) << std::hex << static_cast<uint32_t>(first);
    }
}

TEST(VocabularyTrie, SlicesAndTheOtherTreeShareTheTokensOut) {
  const auto tokens_of = [](std::span<const VocabularyTrie::Node> nodes) {
    std::set<TokenId> tokens;
    for (const auto& node : nodes)
      if (node.token != VocabularyTrie::kNoToken) tokens.insert(static_cast<TokenId>(node.token));
    return tokens;
  };
  const std::set<TokenId> others = tokens_of(tiny_vocabulary().other_nodes());
  std::vector<std::set<TokenId>> slices;
  for (size_t slice = 0; slice < kNumContentSlices; ++slice)
    slices.push_back(tokens_of(tiny_vocabulary().slice_nodes(slice)));
  for (TokenId token = 0; token < tiny_tokenizer().num_tokens(); ++token) {
    const std::string_view bytes = tiny_tokenizer().bytes(token);
    if (bytes.empty() || tiny_tokenizer().is_special(token)) continue;
    const std::optional<size_t> expected = slice_of(bytes);
    EXPECT_EQ(others.contains(token), !expected) << bytes;
    for (size_t slice = 0; slice < kNumContentSlices; ++slice)
      EXPECT_EQ(slices[slice].contains(token), slice == expected) << bytes << " in " << slice;
  }
}

TEST(VocabularyTrie, ContentMasksHaveTheTokensOfASliceUpToALength) {
  for (const uint32_t wanted : {0u, 1u, 0b1010u, 5u << kNumContentSets, (1u << kNumContentSlices) - 1})
    for (const uint32_t most : {0u, 1u, 2u, 3u, 8u, 15u, 16u, 17u, 20u, 40u, 128u, 129u, kUnlimited}) {
      std::vector<uint32_t> mask(tiny_vocabulary().num_mask_words());
      tiny_vocabulary().add_content(wanted, most, mask);
      for (TokenId token = 0; token < tiny_tokenizer().num_tokens(); ++token) {
        const std::string_view bytes = tiny_tokenizer().bytes(token);
        if (bytes.empty() || tiny_tokenizer().is_special(token)) continue;
        const std::optional<size_t> slice = slice_of(bytes);
        EXPECT_EQ(has_token(mask, token),
                  slice && (wanted >> *slice & 1) && Trie::code_points_of(bytes).size() <= most)
            << bytes << " among " << most;
      }
    }
}

}  // namespace
}  // namespace nibble::grammar
