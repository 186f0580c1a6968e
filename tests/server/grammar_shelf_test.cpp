// Tests which compiled grammars are kept for later requests.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/service/grammar_shelf.h"
#include "tests/server/tiny.h"

namespace nibble::server {
namespace {

grammar::Source regex_of(int n) {
  return {.language = grammar::Language::kRegex, .text = fmt::format("a{{{}}}", n)};
}

// Returns a schema with a large compiled grammar: each of its 30 properties has its own set of characters,
// which takes over a quarter of a megabyte when compiled.
grammar::Source large_schema(int n) {
  std::string properties;
  for (int i = 0; i < 30; ++i)
    properties += fmt::format(R"({}"p{}":{{"type":"string","pattern":"^[\\p{{L}}\\u{{{:x}}}]+$"}})",
                              i > 0 ? "," : "", i, 0x2000 + 40 * n + i);
  return {.language = grammar::Language::kJsonSchema,
          .text = fmt::format(R"({{"type":"object","properties":{{{}}}}})", properties)};
}

TEST(GrammarShelf, KeepsThoseThatWereUsedLast) {
  GrammarShelf shelf(tiny());
  const auto first = shelf.get(regex_of(1)).grammar;
  for (int n = 2; n <= 256; ++n) shelf.get(regex_of(n));
  EXPECT_EQ(shelf.get(regex_of(1)).grammar, first);
  shelf.get(regex_of(257));
  EXPECT_EQ(shelf.get(regex_of(1)).grammar, first);
  for (int n = 258; n <= 513; ++n) shelf.get(regex_of(n));
  EXPECT_NE(shelf.get(regex_of(1)).grammar, first);
}

TEST(GrammarShelf, KeepsNoMoreThanThereIsRoomFor) {
  GrammarShelf shelf(tiny());
  const auto first = shelf.get(large_schema(0)).grammar;
  ASSERT_GT(first->bytes() * 30, size_t{256} << 20);
  ASSERT_LT(first->bytes() * 12, size_t{256} << 20);
  for (int n = 1; n < 12; ++n) shelf.get(large_schema(n));
  EXPECT_EQ(shelf.get(large_schema(0)).grammar, first);
  for (int n = 12; n < 42; ++n) shelf.get(large_schema(n));
  EXPECT_NE(shelf.get(large_schema(0)).grammar, first);
}

}  // namespace
}  // namespace nibble::server
