// Tests grammars given as text: GBNF, EBNF and Lark.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/text/json.h"
#include "grammar/languages/gbnf.h"
#include "grammar/languages/lark.h"
#include "grammar/languages/regex.h"
#include "grammar/languages/schema/json_schema.h"
#include "tests/error_of.h"
#include "tests/grammar/vocabularies.h"

namespace nibble::grammar {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

// A small random grammar over a, b and c. has() does not use the code under test: it tries all ways to divide
// a text among the symbols of a rule.
class SmallGrammar {
 public:
  explicit SmallGrammar(std::mt19937& random) : random_(random) {
    for (int rule = 0; rule < kNumRules; ++rule)
      for (unsigned i = 0, num = 1 + below(3); i < num; ++i) {
        std::string alternative;
        for (unsigned n = below(4); n > 0; --n)
          alternative += below(2) ? static_cast<char>('a' + below(3))
                                  : static_cast<char>('0' + below(unsigned{kNumRules}));
        rules_[rule].push_back(alternative);
      }
  }

  std::string gbnf() const {
    std::string text;
    for (int rule = 0; rule < kNumRules; ++rule) {
      text += name(rule) + " ::=";
      for (size_t i = 0; i < rules_[rule].size(); ++i) {
        if (i > 0) text += " |";
        for (const char symbol : rules_[rule][i])
          text += symbol >= 'a' ? " \"" + std::string(1, symbol) + "\"" : " " + name(symbol - '0');
        if (rules_[rule][i].empty()) text += " \"\"";
      }
      text += "\n";
    }
    return text;
  }

  // For every rule and start position, extends the set of end positions (as bits) until nothing changes.
  bool has(const std::string& text) const {
    std::vector<uint32_t> ends(kNumRules * (text.size() + 1));
    for (bool has_grown = true; has_grown;) {
      has_grown = false;
      for (size_t rule = 0; rule < kNumRules; ++rule)
        for (size_t begin = 0; begin <= text.size(); ++begin) {
          uint32_t& known = ends[rule * (text.size() + 1) + begin];
          uint32_t found = known;
          for (const std::string& alternative : rules_[rule]) {
            uint32_t at = 1u << begin;
            for (const char symbol : alternative) at = behind(text, at, symbol, ends);
            found |= at;
          }
          has_grown |= found != known;
          known = found;
        }
    }
    return ends[0] >> text.size() & 1;
  }

 private:
  static constexpr int kNumRules{3};
  static uint32_t behind(const std::string& text, uint32_t at, char symbol,
                         const std::vector<uint32_t>& ends) {
    uint32_t found = 0;
    for (size_t from = 0; from <= text.size(); ++from)
      if (at >> from & 1) {
        if (symbol < 'a')
          found |= ends[static_cast<size_t>(symbol - '0') * (text.size() + 1) + from];
        else if (from < text.size() && text[from] == symbol)
          found |= 2u << from;
      }
    return found;
  }
  static std::string name(int rule) { return rule == 0 ? "root" : "rule-" + std::to_string(rule); }
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

  std::mt19937& random_;
  std::vector<std::string> rules_[kNumRules];
};

// The random grammars have left, right and hidden recursion, ambiguity, and rules that are empty or derive
// only themselves.
TEST(Gbnf, DerivesWhatAllWaysOfDividingATextDerive) {
  std::mt19937 random(5);
  std::vector<std::string> texts{""};
  for (size_t i = 0; texts.size() < 364; ++i)  // all 364 texts of up to 5 letters
    for (const char c : {'a', 'b', 'c'}) texts.push_back(texts[i] + c);
  int num_in = 0, num_compiled = 0;
  for (int i = 0; i < 500; ++i) {
    const SmallGrammar small(random);
    Compiled compiled;
    const std::string error = error_of([&] { compiled = compile_gbnf(small.gbnf()); });
    num_compiled += error == "accepted";
    for (const std::string& text : texts) {
      const bool expected = small.has(text);
      ASSERT_EQ(error == "accepted" && accepts(compiled, text), expected) << small.gbnf() << text << "\n"
                                                                          << error;
      num_in += expected;
    }
  }
  EXPECT_GT(num_compiled, 250);
  EXPECT_GT(num_in, 2'000);
}

TEST(Gbnf, MasksAreWhatTryingEveryTokenFinds) {
  std::mt19937 random(6);
  std::vector<std::string> grammars{
      R"~(root ::= expr
expr ::= expr [-+*/] expr | [a-z] [a-z0-9_]* | [0-9]+ | "(" expr ")")~",
      R"~(root ::= ("- " [^\n]+ "\n")+ | e
e ::= e e | "a" | "aa")~"};
  for (int i = 0; i < 20; ++i) grammars.push_back(SmallGrammar(random).gbnf());
  for (const std::string& grammar : grammars) {
    Compiled compiled;
    if (error_of([&] { compiled = compile_gbnf(grammar); }) != "accepted") continue;
    Matcher matcher(compiled.grammar, tiny_vocabulary());
    std::vector<uint32_t> mask(tiny_vocabulary().num_mask_words());
    for (int step = 0; step < 12; ++step) {
      matcher.fill_mask(mask);
      ASSERT_EQ(mask, mask_by_trying(matcher)) << grammar << step;
      std::vector<TokenId> legal;
      for (TokenId token = 0; token < tiny_tokenizer().num_tokens(); ++token)
        if (has_token(mask, token)) legal.push_back(token);
      EXPECT_EQ(legal.empty(), matcher.is_finished());
      if (legal.empty()) break;
      ASSERT_TRUE(matcher.accept(legal[random() % legal.size()]));
    }
  }
}

// A mask that was cached at a position where nothing could follow must not be used where something can.
TEST(Gbnf, AKeptMaskHoldsOnlyWhereTheSameMayFollow) {
  const Compiled compiled = compile_gbnf(R"~(root ::= list | word
list ::= "(" word (" " list)? ")" "!"?
word ::= [A-Za-z0-9.,: ]+ [a-z] | "<" list ">")~");
  for (const char* text : {"some words", "(some words)!", "(<(ab) (cd)!> (abc)!)", "some other words"}) {
    Matcher matcher(compiled.grammar, tiny_vocabulary());
    std::vector<uint32_t> mask(tiny_vocabulary().num_mask_words());
    for (const char* at = text; *at != '\0'; ++at) {
      matcher.fill_mask(mask);
      ASSERT_EQ(mask, mask_by_trying(matcher)) << text << " before " << at;
      if (!matcher.accept(std::string_view(at, 1))) break;
    }
  }
  EXPECT_FALSE(compiled.grammar->masks.empty()) << "no mask was kept";
}

// llama.cpp's grammar of JSON, with one recursion that is not at the end of a rule and one that is.
constexpr const char* kJson = R"(# JSON
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)";

TEST(Gbnf, ReadsLlamaCppsGrammarOfJson) {
  for (const Compiled& json : {compile_gbnf(kJson), compile_ebnf(kJson)}) {
    EXPECT_TRUE(accepts(json, "{\"a\": [1, -2.5e3, \"x\\n\\u00e9\"],\"b\":{}}"));
    EXPECT_FALSE(accepts(json, "{\"a\":}"));
    EXPECT_FALSE(accepts(json, "[1]"));
  }
}

TEST(Gbnf, ARuleEndsWithItsLineAndInEbnfWithTheNextRule) {
  const char* grammar = "root ::= a\n  | b\n\na ::= (\"x\"\n\"y\")\nb ::= \"z\"{2,3} # end";
  EXPECT_TRUE(accepts(compile_gbnf(grammar), "xy"));
  EXPECT_TRUE(accepts(compile_gbnf(grammar), "zzz"));
  EXPECT_FALSE(accepts(compile_gbnf(grammar), "z"));
  EXPECT_TRUE(accepts(compile_ebnf("root ::= \"a\"\n  b.c\nb.c ::= [^]\n"), "aq"));
  EXPECT_THAT(error_of([] { compile_gbnf("root ::= \"a\"\n  \"b\"\n"); }), HasSubstr("name of a rule"));
}

TEST(Gbnf, MistakesAreNamedWithTheirLine) {
  const auto error = [](const char* text) { return error_of([&] { compile_gbnf(text); }); };
  EXPECT_THAT(error(""), HasSubstr("rule 'root', the start of every text, is not defined"));
  EXPECT_THAT(error("root ::= other"), HasSubstr("rule 'other' is not defined"));
  EXPECT_THAT(error("root ::= \"a\nb\""), AllOf(HasSubstr("line 1"), HasSubstr("must be closed")));
  EXPECT_THAT(error("root ::= x\n\nx = \"a\""), AllOf(HasSubstr("line 3"), HasSubstr("'::='")));
  EXPECT_THAT(error("root ::= <think>"), HasSubstr("tokens are not supported"));
  EXPECT_THAT(error("root ::= (\"a\""), HasSubstr("')'"));
  EXPECT_THAT(error("root ::= \"a\"{3,1}"), HasSubstr("minimum count"));
  EXPECT_THAT(error("root ::= [z-a]"), HasSubstr("range"));
  EXPECT_THAT(error("root ::= \"a\"\nroot ::= \"b\""), HasSubstr("already defined"));
  EXPECT_THAT(error("root ::= root"), HasSubstr("no text satisfies the grammar or schema"));
  EXPECT_THAT(error_of([] { compile_ebnf("root ::= TagDispatch((\"a\", b))"); }), HasSubstr("functions"));
  EXPECT_THAT(error_of([] { compile_ebnf("root ::= \"a\" (= \"b\")"); }), HasSubstr("lookahead"));
}

// A grammar in the style of Codex's tool_apply_patch.lark.
constexpr const char* kPatch = R"(start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
)";

TEST(Lark, ReadsAGrammarOfPatches) {
  const Compiled patch = compile_lark(kPatch);
  EXPECT_TRUE(accepts(patch, "*** Begin Patch\n*** Add File: a b.txt\n+x\n+\n*** End Patch"));
  EXPECT_TRUE(accepts(patch,
                      "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@ def f():\n-x\n+y\n z\n*** End "
                      "of File\n*** Delete "
                      "File: c\n*** End Patch\n"));
  EXPECT_FALSE(accepts(patch, "*** Begin Patch\n*** End Patch\n"));
  EXPECT_FALSE(accepts(patch, "*** Begin Patch\n*** Add File: a\nx\n*** End Patch\n"));
}

TEST(Lark, ReadsTerminalsLiteralsAndWhatIsIgnored) {
  const Compiled sum = compile_lark(R"~(
    // comments
    ?start: sum
    ?sum: product | sum ("+" | "-") product -> add   # left recursion
    ?product: atom | product "*" atom
    atom.2: NUMBER | "-" atom | "(" sum ")" | FUNCTION "(" [sum] ")"
    FUNCTION: "sin"i | "a".."c" ~2..3
    %import common (NUMBER, WS_INLINE)
    %ignore WS_INLINE
  )~");
  for (const char* text : {"1+2*3", " 1 + ( 2.5e3 - 4 ) ", "SiN(1)*abc()", "--1"})
    EXPECT_TRUE(accepts(sum, text)) << text;
  for (const char* text : {"1+", "(1", "a(1)", "abca(1)", "1\n+2", ""})
    EXPECT_FALSE(accepts(sum, text)) << text;
}

// As in the Python package lark: an empty alternative on the rule's line, on its own line, and in a group.
TEST(Lark, AnAlternativeMayBeEmpty) {
  for (const char* rule :
       {R"(x: | "a")", R"(x: "a" |)", "x:\n  | \"a\"", "x: // nothing, or\n\n  | \"a\"\n\n",
        R"(x: -> nothing | "a" -> one)", R"(x: ( | "a"))", R"(x: ("a" | ))", R"(x: [ | "a"])",
        "X: | \"a\"\nx: X", R"(x: y{0,1}
                              y: "a")"}) {
    const Compiled compiled = compile_lark(fmt::format("start: x \"b\"?\n{}", rule));
    for (const char* text : {"", "a", "b", "ab"})
      EXPECT_TRUE(accepts(compiled, text)) << rule << ": " << text;
    for (const char* text : {"aa", "ba", "aab"})
      EXPECT_FALSE(accepts(compiled, text)) << rule << ": " << text;
  }
  EXPECT_FALSE(accepts(compile_lark("start: x\nx: \"a\"\n  | \"b\""), ""));
}

TEST(Lark, CountsAreWrittenInBracesOrAfterATilde) {
  const struct {
    const char* count;
    size_t min, max;
  } counts[]{{"{2}", 2, 2},  {"{2,4}", 2, 4}, {"{ 2 , 4 }", 2, 4}, {" {2,}", 2, 99},
             {"{,3}", 0, 3}, {"~2", 2, 2},    {"~ 2..4", 2, 4},    {" ~2 .. 4", 2, 4}};
  for (const auto& [count, min, max] : counts)
    for (const char* counted : {R"("a")", "x", "X", R"(("a"))"}) {
      const Compiled compiled = compile_lark(fmt::format("start: {}{}\nx: X\nX: /a/", counted, count));
      for (size_t num = 0; num < 7; ++num)
        EXPECT_EQ(accepts(compiled, std::string(num, 'a')), num >= min && num <= max)
            << counted << count << num;
    }
  for (const char* count : {"{}", "{a}", "{3,2}", "{2", "{2 3}", "~", "~3..2"})
    EXPECT_NE(error_of([&] { compile_lark(fmt::format("start: \"a\"{}", count)); }), "accepted") << count;
}

TEST(Lark, NamesMayHaveHyphens) {
  const Compiled compiled = compile_lark("start: a-rule->an-alias\na-rule: A-B-2 -> x\nA-B-2: \"ab\"");
  EXPECT_TRUE(accepts(compiled, "ab"));
  EXPECT_THAT(error_of([] { compile_lark("start: -a\na: \"b\""); }), HasSubstr("another part of the rule"));
}

TEST(Lark, WhatIsNotSupportedIsRefusedByName) {
  const auto error = [](const char* text) { return error_of([&] { compile_lark(text); }); };
  EXPECT_THAT(error("start: \"a\"\n%declare X"), AllOf(HasSubstr("line 2"), HasSubstr("directives")));
  EXPECT_THAT(error("start: %json {\"type\": \"object\"}"), HasSubstr("not supported"));
  EXPECT_THAT(error("start: <|end|>"), HasSubstr("tokens"));
  EXPECT_THAT(error("start: list{x}\nlist{x}: x"), HasSubstr("templates"));
  EXPECT_THAT(error("start[lazy]: /a/"), HasSubstr("attributes"));
  EXPECT_THAT(error("start: X\nX: start"), HasSubstr("can't refer to a rule"));
  EXPECT_THAT(error("start: /a(?=b)/"), HasSubstr("lookaround"));
  EXPECT_THAT(error("start: /a/x"), HasSubstr("flags"));
  EXPECT_THAT(error("start: missing"), HasSubstr("'missing' is not defined"));
  EXPECT_THAT(error("begin: \"a\""), HasSubstr("rule 'start', the start of every text, is not defined"));
  EXPECT_THAT(error("%import common.NOTHING\nstart: NOTHING"), HasSubstr("is not in Lark's grammar"));
  EXPECT_THAT(error("start: \"b\"..\"a\""), HasSubstr("in order"));
}

TEST(Lark, IsDistinguishedFromEbnfByItsDefinitions) {
  EXPECT_TRUE(accepts(compile_ebnf_or_lark("start: \"a\""), "a"));
  EXPECT_TRUE(accepts(compile_ebnf_or_lark("root ::= \"a\""), "a"));
}

// Returns every text of up to five of the characters below. JSON strings must escape four of the characters.
std::vector<std::string> texts_with_escapes() {
  std::vector<std::string> texts{""};
  for (size_t first = 0, length = 0; length < 5; ++length)
    for (const size_t end = texts.size(); first < end; ++first)
      for (const char* character : {"a", "\"", "\\", "\n", "\x01", "é"})
        texts.push_back(texts[first] + character);
  return texts;
}

TEST(Argument, AStringHasTheTextsOfItsGrammarWrittenInJson) {
  const std::vector<std::string> texts = texts_with_escapes();
  const char* const kGrammars[]{
      R"(start: "a"* "\"" /[é\n]+/ | /[^a]{2}/)",
      // No regular expression can describe these texts.
      R"(start: "\"" start "\\" | "a")",
      "start: x x\nx: x \"\\n\" | X\nX: /./",
      "start: (\"a\" | E) ~ 2..3\nE: \"\\u00e9\"\n%ignore \"\\x01\"",
  };
  for (const char* grammar : kGrammars) {
    const Compiled plain = compile_lark(grammar), argument = compile_lark(grammar, "input");
    size_t num_texts = 0;
    for (const std::string& text : texts) {
      const std::string json = Json(text).dump();
      const bool is_one = accepts(plain, text);
      ASSERT_EQ(accepts(argument, R"({"input":)" + json + "}"), is_one) << grammar << json;
      if (is_one && num_texts++ % 40 == 0) check_masks_along(argument, "{\n  \"input\": " + json + "}");
    }
    EXPECT_GT(num_texts, 2u) << grammar;
  }
}

TEST(Argument, OfARegularExpressionIsWrittenInOneWay) {
  const Compiled line = compile_regex(R"(say "[^\n]+"\n)", "input");
  EXPECT_TRUE(accepts(line, R"({"input": "say \"é/\u001f\"\n"})"));
  for (const char* other :
       {R"({"input": "say \"\"\n"})", R"({"input": "say \"\u00e9\"\n"})", R"({"input": "say \"\/\"\n"})",
        "{\"input\": \"say \\\"x\\\"\n\"}", R"({"input": "say \"x\"\n)", R"({"other": "say \"x\"\n"})",
        R"({"input": "say \"x\"\n", "a": 1})", R"(say "x")"})
    EXPECT_FALSE(accepts(line, other)) << other;
}

// Each pattern has its own set of characters, which takes a quarter of a megabyte.
TEST(Limits, ManySetsOfCharactersAreCounted) {
  const auto schema_of = [](int num_patterns) {
    Json schema{{"type", "object"}, {"properties", Json::object()}};
    for (int i = 0; i < num_patterns; ++i)
      schema["properties"]["p" + std::to_string(i)] = {
          {"type", "string"}, {"pattern", fmt::format(R"(^[\p{{L}}\u{{{:x}}}]+$)", 0x3000 + i)}};
    return schema;
  };
  EXPECT_LT(compile_json_schema(schema_of(30)).grammar->automata_bytes, 12u << 20);
  EXPECT_THAT(error_of([&] { compile_json_schema(schema_of(200)); }),
              AnyOf(HasSubstr("character sets"), HasSubstr("too much work")));
  EXPECT_THAT(error_of([&] { compile_json_schema(schema_of(5000)); }), HasSubstr("too much work"));
}

TEST(Limits, TheSetsOfOneExpressionAreCounted) {
  const auto regex_of = [](int num_sets) {
    std::string regex = "x";
    for (int i = 0; i < num_sets; ++i) regex += fmt::format(R"(|[\p{{L}}\x{{{:x}}}])", 0x3000 + i);
    return regex;
  };
  EXPECT_NO_THROW(compile_regex(regex_of(50)));
  EXPECT_THAT(error_of([&] { compile_regex(regex_of(1000)); }), HasSubstr("too much work"));
}

TEST(Limits, APropertyIsKnownByAllItsNames) {
  for (const char* regex : {R"(\p{Greek})", R"(\p{greek})", R"(\p{G_reek})"}) {
    EXPECT_TRUE(accepts(compile_regex(regex), "λ")) << regex;
    EXPECT_FALSE(accepts(compile_regex(regex), "l")) << regex;
  }
}

}  // namespace
}  // namespace nibble::grammar
