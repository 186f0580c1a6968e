#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "core/text/json.h"
#include "grammar/languages/regex.h"
#include "grammar/languages/schema/json_schema.h"
#include "grammar/program/builder.h"
#include "tests/error_of.h"
#include "tests/grammar/vocabularies.h"

namespace nibble::grammar {
namespace {

using testing::HasSubstr;

// A regular expression as a tree. It is matched by trying all ways, without the code under test.
struct Pattern {
  enum Kind { kLetter, kAny, kNotA, kBegin, kEnd, kSequence, kChoice, kRepeat } kind;
  char letter{'a'};
  std::vector<Pattern> parts{};
  int min{0}, max{0};  // max -1: unbounded

  std::string text() const {
    switch (kind) {
      case kLetter:
        return std::string(1, letter);
      case kAny:
        return ".";
      case kNotA:
        return "[^a]";
      case kBegin:
        return "^";
      case kEnd:
        return "$";
      case kSequence: {
        std::string all;
        for (const Pattern& part : parts) all += part.text();
        return all;
      }
      case kChoice:
        return "(?:" + parts[0].text() + "|" + parts[1].text() + ")";
      case kRepeat: {
        const std::string count = max < 0 ? "{" + std::to_string(min) + ",}"
                                          : "{" + std::to_string(min) + "," + std::to_string(max) + "}";
        return "(?:" + parts[0].text() + ")" + count;
      }
    }
    return "";
  }

  // Positions in a text, as bits. Position i is before character i.
  using Places = uint32_t;

  // Returns the end positions of matches that begin at the positions `from`.
  Places ends(const std::string& in, Places from) const {
    const Places last = Places{1} << in.size();
    switch (kind) {
      case kLetter:
      case kAny:
      case kNotA: {
        Places found = 0;
        for (size_t i = 0; i < in.size(); ++i)
          if ((from >> i & 1) && (kind == kAny || (kind == kLetter ? in[i] == letter : in[i] != 'a')))
            found |= Places{2} << i;
        return found;
      }
      case kBegin:
        return from & 1;
      case kEnd:
        return from & last;
      case kSequence:
        for (const Pattern& part : parts) from = part.ends(in, from);
        return from;
      case kChoice:
        return parts[0].ends(in, from) | parts[1].ends(in, from);
      case kRepeat: {
        Places found = 0;
        const int most = max < 0 ? min + static_cast<int>(in.size()) : max;
        for (int count = 0; from != 0 && count <= most; ++count) {
          if (count >= min) found |= from;
          from = parts[0].ends(in, from);
        }
        return found;
      }
    }
    return 0;
  }

  bool matches_whole(const std::string& in) const { return ends(in, 1) >> in.size() & 1; }
  bool is_found_in(const std::string& in) const { return ends(in, (Places{2} << in.size()) - 1) != 0; }
};

class Patterns {
 public:
  explicit Patterns(unsigned seed) : random_(seed) {}

  Pattern make(int depth, bool has_anchors) {
    const int kind = below(depth > 0 ? 10 : 5);
    if (kind < 3) return {.kind = Pattern::kLetter, .letter = static_cast<char>('a' + below(3))};
    if (kind == 3) return {.kind = below(2) ? Pattern::kAny : Pattern::kNotA};
    if (kind == 4 && has_anchors) return {.kind = below(2) ? Pattern::kBegin : Pattern::kEnd};
    if (kind <= 6) {
      Pattern sequence{.kind = Pattern::kSequence};
      for (int i = below(4); i >= 0; --i) sequence.parts.push_back(make(depth - 1, has_anchors));
      return sequence;
    }
    if (kind <= 7)
      return {.kind = Pattern::kChoice,
              .parts = {make(depth - 1, has_anchors), make(depth - 1, has_anchors)}};
    const int min = below(3);
    return {.kind = Pattern::kRepeat,
            .parts = {make(depth - 1, false)},
            .min = min,
            .max = below(3) == 0 ? -1 : min + below(3)};
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::mt19937 random_;
};

std::vector<std::string> all_texts(size_t max_length) {
  std::vector<std::string> texts{""};
  for (size_t begin = 0, length = 0; length < max_length; ++length) {
    const size_t end = texts.size();
    for (; begin < end; ++begin)
      for (const char c : {'a', 'b', 'c'}) texts.push_back(texts[begin] + c);
  }
  return texts;
}

bool matches(Automaton& automaton, const std::string& text) {
  uint32_t state = Automaton::kStart;
  for (const char byte : text) state = automaton.next(state, static_cast<uint8_t>(byte));
  return automaton.accepts(state);
}

TEST(Regex, MatchesWhatAllWaysOfMatchingFind) {
  const std::vector<std::string> texts = all_texts(6);
  Patterns patterns(1);
  int num_matches = 0;
  for (int i = 0; i < 400; ++i) {
    const Pattern pattern = patterns.make(4, true);
    for (const bool is_search : {false, true}) {
      GrammarBuilder builder;
      const Expression expression =
          regex_expression(builder.expressions(), pattern.text(),
                           {.reading = is_search ? RegexReading::kSearch : RegexReading::kWhole}, "test");
      Automaton& automaton = builder.automaton_of(expression, Encoding::kUtf8);
      for (const std::string& text : texts) {
        const bool expected = is_search ? pattern.is_found_in(text) : pattern.matches_whole(text);
        ASSERT_EQ(matches(automaton, text), expected)
            << pattern.text() << " in '" << text << "', search: " << is_search;
        num_matches += expected;
      }
    }
  }
  EXPECT_GT(num_matches, 10'000) << "the patterns hardly match anything";
}

// Returns an automaton for texts that match `a` but not `b`.
Automaton& difference(GrammarBuilder& builder, const Pattern& a, const Pattern& b) {
  Expressions& e = builder.expressions();
  const Expression both =
      e.all_of(regex_expression(e, a.text(), {}, "a"), e.complement(regex_expression(e, b.text(), {}, "b")));
  return builder.automaton_of(both, Encoding::kUtf8);
}

TEST(Regex, IntersectionAndComplementAreThoseOfTheTexts) {
  const std::vector<std::string> texts = all_texts(5);
  Patterns patterns(2);
  for (int i = 0; i < 200; ++i) {
    const Pattern a = patterns.make(3, false), b = patterns.make(3, false);
    GrammarBuilder builder;
    Automaton& automaton = difference(builder, a, b);
    bool has_any = false;
    for (const std::string& text : texts) {
      const bool expected = a.matches_whole(text) && !b.matches_whole(text);
      ASSERT_EQ(matches(automaton, text), expected)
          << a.text() << " but not " << b.text() << ": '" << text << "'";
      has_any |= expected;
    }
    EXPECT_FALSE(has_any && automaton.is_empty());
  }
}

// A text that has not failed can still be completed: every state that is not dead leads to an end.
TEST(Regex, EveryStateThatIsAliveLeadsToAnEnd) {
  Patterns patterns(3);
  for (int i = 0; i < 200; ++i) {
    const Pattern a = patterns.make(3, false), b = patterns.make(3, false);
    GrammarBuilder builder;
    Automaton& automaton = difference(builder, a, b);
    if (automaton.is_empty()) continue;
    for (const std::string& text : all_texts(3)) {
      std::vector<uint32_t> open{Automaton::kStart};
      for (const char byte : text) open[0] = automaton.next(open[0], static_cast<uint8_t>(byte));
      if (open[0] == Automaton::kDead) continue;
      std::set<uint32_t> seen{open[0]};
      bool has_end = automaton.accepts(open[0]);
      for (size_t at = 0; at < open.size() && !has_end; ++at)
        for (int byte = 0; byte < 256; ++byte) {
          const uint32_t next = automaton.next(open[at], static_cast<uint8_t>(byte));
          has_end |= automaton.accepts(next);
          if (next != Automaton::kDead && seen.insert(next).second) open.push_back(next);
        }
      EXPECT_TRUE(has_end) << a.text() << " but not " << b.text() << " behind '" << text << "'";
    }
  }
}

TEST(Regex, ReadsTheCommonDialect) {
  const auto is_match = [](const char* regex, std::string_view text) {
    return accepts(compile_regex(regex), text);
  };
  EXPECT_TRUE(is_match(R"(\d{4}-\d\d)", "2026-11"));
  EXPECT_FALSE(is_match(R"(\d{4}-\d\d)", "2026-1"));
  EXPECT_TRUE(is_match(R"(^(?<word>[^\W\d_]+)\s?$)", "caf "));
  EXPECT_TRUE(is_match(R"(\p{L}+)", "\u00e9t\u00e9"));
  EXPECT_FALSE(is_match(R"(\P{L}+)", "\u00e9"));
  EXPECT_TRUE(is_match(R"([[:alpha:]]+\x41\u0042\u{1F600}\/)", "zAB\U0001F600/"));
  EXPECT_TRUE(is_match(R"(a.b)", "a\u2028b"));
  EXPECT_FALSE(is_match(R"(a.b)", "a\nb"));
  EXPECT_TRUE(is_match(R"((a|b)*?c+)", "ababcc"));
  EXPECT_TRUE(is_match("", ""));
}

// ECMAScript, PCRE and Python treat these brackets and braces as plain characters.
TEST(Regex, ABracketInASetAndABraceWithoutACountAreCharacters) {
  const struct {
    const char* regex;
    std::vector<const char*> valid, invalid;
  } cases[]{{R"([^<>()[\]\.,;:\s@"]+@x)", {"a-b@x"}, {"a[b@x", "a]b@x", "@x"}},
            {R"([[a]+)", {"[", "a[a"}, {"]", ""}},
            {R"([a[]+)", {"[", "a["}, {"]"}},
            {R"([[]])", {"[]"}, {"[", "]"}},
            {R"([+-[]+)", {"[", "A", "+"}, {"*", "]"}},
            {R"([^[]+)", {"]", "a"}, {"["}},
            {R"([[[]+)", {"["}, {"]"}},
            {R"(a]})", {"a]}"}, {"a"}},
            {R"({"a": \d+})", {R"({"a": 12})"}, {R"("a": 12)"}},
            {R"(a{b}{2}c{)", {"a{b}}c{"}, {"a{b}c{"}}};
  for (const auto& [regex, valid, invalid] : cases) {
    Compiled compiled = compile_regex(regex);
    for (const char* text : valid) EXPECT_TRUE(accepts(compiled, text)) << regex << " in " << text;
    for (const char* text : invalid) EXPECT_FALSE(accepts(compiled, text)) << regex << " in " << text;
    const Json schema{{"type", "string"}, {"pattern", fmt::format("^(?:{})$", regex)}};
    compiled = compile_json_schema(schema);
    for (const char* text : valid)
      EXPECT_TRUE(accepts(compiled, Json(text).dump())) << regex << " in " << text;
    for (const char* text : invalid)
      EXPECT_FALSE(accepts(compiled, Json(text).dump())) << regex << " in " << text;
  }
}

TEST(Regex, WhatNoAutomatonKnowsIsRefusedByName) {
  const auto error = [](const char* regex) { return error_of([&] { compile_regex(regex); }); };
  EXPECT_THAT(error(R"(a\b)"), HasSubstr("word boundaries"));
  EXPECT_THAT(error("(?=a)b"), HasSubstr("lookaround"));
  EXPECT_THAT(error("(?<!a)b"), HasSubstr("lookaround"));
  EXPECT_THAT(error(R"((a)\1)"), HasSubstr("backreference"));
  EXPECT_THAT(error("(?i)a"), HasSubstr("kind of group"));
  EXPECT_THAT(error("a++"), HasSubstr("possessive"));
  EXPECT_THAT(error("a**"), HasSubstr("quantifier"));
  EXPECT_THAT(error("(a"), HasSubstr("a group is not closed"));
  EXPECT_THAT(error("a)"), HasSubstr("closes no group"));
  EXPECT_THAT(error("[z-a]"), HasSubstr("range"));
  EXPECT_THAT(error("a{3,2}"), HasSubstr("minimum count"));
  for (const char* regex : {"[a&&b]", "[--a]", "[~~]", "[[.a.]]", "[[=a=]]", "[]a]", "[^]a]"})
    EXPECT_THAT(error(regex), HasSubstr("differently")) << regex;
  EXPECT_THAT(error("[[:a:]]"), HasSubstr("unknown character class"));
  for (const char* regex : {"{2}", "a|{2,}", "({1,2})"})
    EXPECT_THAT(error(regex), HasSubstr("nothing to repeat")) << regex;
  EXPECT_THAT(error("a{,2}"), HasSubstr("write {0"));
  EXPECT_THAT(error(R"(\p{Nonsense})"), HasSubstr("unsupported property"));
  EXPECT_THAT(error("\xff"), HasSubstr("UTF-8"));
  EXPECT_THAT(error("a^b"), HasSubstr("no text satisfies the grammar or schema"));
}

TEST(Choice, IsOneOfTheTexts) {
  const Compiled choice = compile_choice({"red", "green", "greenish"});
  EXPECT_TRUE(accepts(choice, "green"));
  EXPECT_TRUE(accepts(choice, "greenish"));
  EXPECT_FALSE(accepts(choice, "gree"));
  EXPECT_FALSE(accepts(choice, "redd"));
  EXPECT_THAT(error_of([] { compile_choice({}); }), HasSubstr("the list is empty"));
}

}  // namespace
}  // namespace nibble::grammar
