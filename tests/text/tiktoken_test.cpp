// Tests which .tiktoken rank files are accepted and which are refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/errors/error.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "text/tokenizer.h"

namespace nibble {
namespace {

using testing::ElementsAre;

std::string base64(std::string_view bytes) {
  const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view three = bytes.substr(at, 3);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (i < three.size() ? uint8_t(three[i]) : 0u);
    for (size_t i = 0; i < 4; ++i) text += i <= three.size() ? digits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

// Returns a rank file with the single bytes at ranks 0 to 255, then the tokens of `more`.
std::string rank_file(const std::vector<std::string>& more) {
  std::string file;
  for (int byte = 0; byte < 256; ++byte)
    file += fmt::format("{} {}\n", base64(std::string{char(byte)}), byte);
  for (size_t i = 0; i < more.size(); ++i) file += fmt::format("{} {}\n", base64(more[i]), 256 + i);
  return file;
}

std::string error(const std::string& file) {
  const std::string error = error_of([&] { Tokenizer::from_tiktoken(file, "test.tiktoken"); });
  EXPECT_THAT(error, testing::AnyOf("accepted", testing::StartsWith("test.tiktoken: ")));
  return error;
}

TEST(Tiktoken, TheLowestRankMergesFirst) {
  const Tokenizer tokenizer = Tokenizer::from_tiktoken(rank_file({"bc", "ab", "abc", "cd"}), "test.tiktoken");
  EXPECT_THAT(tokenizer.encode("abc", SpecialTokens::kOrdinary), ElementsAre(258));
  EXPECT_THAT(tokenizer.encode("abd", SpecialTokens::kOrdinary), ElementsAre(257, 'd'));
  EXPECT_THAT(tokenizer.encode("abcd", SpecialTokens::kOrdinary), ElementsAre(258, 'd'));
}

TEST(Tiktoken, AWholePieceThatIsATokenIsTaken) {
  // No merge can make this token.
  const Tokenizer tokenizer = Tokenizer::from_tiktoken(rank_file({"wxyz"}), "test.tiktoken");
  EXPECT_THAT(tokenizer.encode("wxyz", SpecialTokens::kOrdinary), ElementsAre(256));
  EXPECT_THAT(tokenizer.encode("wxyzw", SpecialTokens::kOrdinary), ElementsAre('w', 'x', 'y', 'z', 'w'));
}

TEST(Tiktoken, TheOrderOfLinesAndTheLastLineEndDoNotMatter) {
  const std::string file = rank_file({"ab"});
  const size_t middle = file.find('\n', file.size() / 2) + 1;
  EXPECT_EQ(error(file.substr(middle) + file.substr(0, middle)), "accepted");
  EXPECT_EQ(error(file.substr(0, file.size() - 1)), "accepted");
  std::string with_returns;
  for (const char c : file) with_returns += c == '\n' ? "\r\n" : std::string{c};
  EXPECT_EQ(error(with_returns), "accepted");
}

TEST(Tiktoken, HarmonysTokensFollowTheLastRank) {
  const Tokenizer tokenizer = Tokenizer::from_tiktoken(rank_file({}), "test.tiktoken");
  EXPECT_EQ(tokenizer.num_tokens(), 256 + 21);
  // Each special token is at the same distance from the first one as in the bundled vocabulary, whose special
  // tokens begin at 4064.
  const Tokenizer bundled = Tokenizer::open(test::source_path("models/tiny-gpt-oss"));
  for (TokenId distance = 0; distance < 21; ++distance) {
    const TokenId id = 256 + distance;
    EXPECT_TRUE(tokenizer.is_special(id));
    EXPECT_EQ(tokenizer.special(tokenizer.bytes(id)), id);
    const std::string_view name = tokenizer.bytes(id);
    if (name.starts_with("<|reserved_"))
      EXPECT_EQ(name, fmt::format("<|reserved_{}|>", id));
    else
      EXPECT_EQ(name, bundled.bytes(4064 + distance));
  }
}

TEST(Tiktoken, BadLinesAreRefused) {
  using testing::HasSubstr;
  const std::string file = rank_file({});
  for (const std::string line :
       {"", "YQ==", "YQ== ", "YQ==  256", "YWI= 256 ", "YWI= x", "YWI= 2x", "YWI= 1.5", " 256", "YW= 256",
        "YWI 256", "Y!I= 256", "YWJ= 256", "==== 256", "Y=I= 256", "YWI= 99999999999999999999"})
    EXPECT_THAT(error(file + line + "\nYWI= 257\n"),
                HasSubstr("line 257 must be a token in base64, a space and its rank"))
        << line;
  EXPECT_THAT(error(file + "YWI= 300\n"),
              HasSubstr("line 257 has rank 300, but 257 tokens have the ranks 0 to 256"));
  EXPECT_THAT(error(file + "YWI= -1\n"), HasSubstr("line 257 has rank -1"));
  EXPECT_THAT(error(file + "YWI= 255\n"),
              HasSubstr("line 257 repeats the token or the rank of an earlier line"));
  EXPECT_THAT(error(file + "YQ== 256\n"),
              HasSubstr("line 257 repeats the token or the rank of an earlier line"));
  EXPECT_THAT(error(file + base64(std::string(513, 'a')) + " 256\n"), HasSubstr("is a token of 513 bytes"));
}

TEST(Tiktoken, AFileThatIsCutShortIsRefused) {
  const std::string file = rank_file({"ab", "cd"});
  const size_t bytes_end = rank_file({}).size();
  for (size_t size = 0; size < file.size(); ++size) {
    // A file cut after any line that follows all 256 bytes is a valid vocabulary, because a file does not say
    // how many lines it should have.
    const bool is_whole_lines = size + 1 >= bytes_end && (file[size] == '\n' || file[size - 1] == '\n');
    EXPECT_EQ(error(file.substr(0, size)) == "accepted", is_whole_lines) << size;
  }
}

TEST(Tiktoken, AVocabularyWithoutAllBytesIsRefused) {
  EXPECT_THAT(error("YQ== 0\n"), testing::HasSubstr("byte 0x00 has no token"));
  EXPECT_THAT(error(""), testing::HasSubstr("line 1 must be a token"));
}

}  // namespace
}  // namespace nibble
