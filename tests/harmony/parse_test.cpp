#include "harmony/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harmony/json.h"
#include "tests/harmony/parsed.h"

namespace nibble::harmony {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Returns messages in the short form of the vectors, with sorted members: {"role", "channel", ..., "content":
// TEXT, "repairs"}.
nlohmann::json short_form(const std::vector<ParsedMessage>& messages) {
  nlohmann::json out = nlohmann::json::array();
  for (const ParsedMessage& parsed : messages) {
    nlohmann::json message = to_json(parsed);
    message["content"] = parsed.message.text;
    out.push_back(std::move(message));
  }
  return out;
}

// "result" is the result of the official parser. "ours", if present, is the expected result for a stream that
// the official parser refuses or reads differently (by the rules in the first comment of parse.cpp).
TEST(Parse, ReadsTheVectorsAsTheOfficialParserDoesOrRepairsThem) {
  const std::vector<Json> vectors = json_lines("tests/data/harmony_parse.jsonl");
  ASSERT_EQ(vectors.size(), 18u);
  for (const Json& vector : vectors) {
    const auto role = vector["role"].is_null() ? std::nullopt : role_of(vector["role"].get<std::string>());
    const std::string text = vector["text"];
    const nlohmann::json expected = vector[vector.contains("ours") ? "ours" : "result"];
    EXPECT_EQ(short_form(parse(ids_of(text), role)), expected) << text;
  }
}

// The completion is from the official library's own test.
TEST(Parse, ReadsTheOfficialTokens) {
  const std::vector<TokenId> completion{200005, 35644, 200008, 1844,   31064,  25,     392,    4827,  382,
                                        220,    17,    659,    220,    17,     16842,  12295,  81645, 13,
                                        51441,  6052,  13,     200002, 200006, 173781, 200005, 17196, 200008,
                                        17,     659,   220,    17,     314,    220,    19,     13,    200002};
  EXPECT_EQ(short_form(parse(completion, Role::kAssistant)),
            nlohmann::json::parse(R"([{"role": "assistant", "channel": "analysis",
                "content": "User asks: \"What is 2 + 2?\" Simple arithmetic. Provide answer."},
               {"role": "assistant", "channel": "final", "content": "2 + 2 = 4."}])"));
}

// Token 9552 is a space and the first half of a character.
TEST(Parse, HalfACharacterNeverLeaksIntoTheNextMessage) {
  std::vector<TokenId> tokens = ids_of("<|start|>assistant<|message|>");
  tokens.insert(tokens.end(), {9552, 9552});
  const std::vector<TokenId> second = ids_of("<|end|><|start|>assistant<|message|>Hi<|end|>");
  tokens.insert(tokens.end(), second.begin(), second.end());
  const auto messages = parse(tokens, std::nullopt);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].message.text, " \uFFFD \uFFFD");
  EXPECT_EQ(messages[1].message.text, "Hi");
}

TEST(Parse, HalfACharacterAtTheEndOfTheStreamIsReplaced) {
  std::vector<TokenId> tokens = ids_of("<|message|>");
  tokens.push_back(9552);
  for (const TokenId token : ids_of("Hi")) tokens.push_back(token);
  EXPECT_EQ(parse(tokens, Role::kAssistant).at(0).message.text, " \uFFFDHi");
  tokens.resize(2);
  EXPECT_EQ(parse(tokens, Role::kAssistant).at(0).message.text, " \uFFFD");
}

TEST(Parse, HalfACharacterInAHeaderIsReplacedTooBeforeWhateverEndsIt) {
  std::vector<TokenId> tokens;
  for (const char* token : {"<|channel|>", "<|constrain|>", "<|endoftext|>", "<|message|>"}) {
    tokens.push_back(9552);
    tokens.push_back(control(o200k(), token));
  }
  const std::string text = parse(tokens, Role::kAssistant).at(0).message.text;
  EXPECT_EQ(text, "\uFFFD \uFFFD  \uFFFD\n");  // the text after <|constrain|> is the content type
  EXPECT_EQ(parse({9552}, Role::kAssistant).at(0).message.text, "\uFFFD");
}

TEST(Parse, WithholdsHalfACharacterAndGivesItOutWhole) {
  const std::vector<TokenId> heart = ids_of("💖");
  ASSERT_GE(heart.size(), 2u);
  Parser parser(o200k(), Role::kAssistant);
  parser.push(control(o200k(), "<|message|>"));
  for (size_t i = 0; i + 1 < heart.size(); ++i) EXPECT_EQ(parser.push(heart[i]).text, "");
  EXPECT_EQ(parser.push(heart.back()).text, "💖");
}

TEST(Parse, SaysWhenAHeaderAndWhenAMessageEnds) {
  Parser parser(o200k(), Role::kAssistant);
  for (const TokenId token : ids_of("<|channel|>final")) EXPECT_FALSE(parser.push(token).header_ended);
  EXPECT_TRUE(parser.messages().empty());
  EXPECT_TRUE(parser.push(control(o200k(), "<|message|>")).header_ended);
  EXPECT_EQ(parser.messages().at(0).message.channel, "final");
  EXPECT_EQ(parser.push(ids_of("Hi").at(0)).text, "Hi");
  EXPECT_FALSE(parser.messages()[0].is_complete);
  EXPECT_TRUE(parser.push(control(o200k(), "<|return|>")).message_ended);
  EXPECT_TRUE(parser.messages()[0].is_complete);
  const Delta last = parser.finish();
  EXPECT_FALSE(last.header_ended || last.message_ended);
}

struct Repaired {
  const char* stream;
  const char* messages;  // in the short form
};

void expect(std::optional<Role> role, std::initializer_list<Repaired> cases) {
  for (const Repaired& c : cases)
    EXPECT_EQ(short_form(parse(ids_of(c.stream), role)), nlohmann::json::parse(c.messages)) << c.stream;
}

TEST(Parse, ASecondChannelTakesThePlaceOfTheFirst) {
  expect(
      Role::kAssistant,
      {{"<|channel|>commentary<|channel|>analysis<|message|>x<|end|>",
        R"([{"role": "assistant", "channel": "analysis", "content": "x",
            "repairs": ["channel 'commentary' was replaced by 'analysis', which follows it"]}])"},
       {"<|channel|>commentary to=assistant<|channel|>final<|message|>x<|return|>",
        R"([{"role": "assistant", "channel": "final", "content": "x",
            "repairs": ["channel 'commentary' was replaced by 'final', which follows it",
                        "to=assistant was dropped with the replaced channel"]}])"},
       {" to=functions.f<|channel|>analysis<|channel|>commentary json<|message|>{}<|call|>",
        R"([{"role": "assistant", "channel": "commentary", "recipient": "functions.f", "content_type": "json", "content": "{}",
            "repairs": ["channel 'analysis' was replaced by 'commentary', which follows it"]}])"}});
}

TEST(Parse, AHeaderThatIsCutOffGivesItsFieldsAndTheRestAsText) {
  expect(
      Role::kAssistant,
      {{"<|channel|>finalThe answer\n\nis <b>4</b>.<|return|>",
        R"([{"role": "assistant", "channel": "final", "content": "The answer\n\nis <b>4</b>.",
            "repairs": ["the header was cut off by <|return|>"]}])"},
       {"<|channel|>commentary to=functions.f <|constrain|>json{\"a\": 1}<|call|>",
        R"([{"role": "assistant", "channel": "commentary", "recipient": "functions.f", "content_type": "<|constrain|>json",
            "content": "{\"a\": 1}", "repairs": ["the header was cut off by <|call|>"]}])"},
       {"<|channel|>commentary to=functions.f json{\"a\": 1}<|call|>",
        R"([{"role": "assistant", "channel": "commentary", "recipient": "functions.f", "content_type": "json",
            "content": "{\"a\": 1}", "repairs": ["the header was cut off by <|call|>"]}])"},
       {"<|channel|>analysis think<|start|>assistant<|channel|>final<|message|>x<|return|>",
        R"([{"role": "assistant", "channel": "analysis", "content": "think",
            "repairs": ["the header was cut off by <|start|>"]},
           {"role": "assistant", "channel": "final", "content": "x"}])"},
       {"Hello world.<|return|>", R"([{"role": "assistant", "content": "Hello world.",
                                      "repairs": ["the header was cut off by <|return|>"]}])"}});
}

std::string unfinished_header(const std::vector<TokenId>& tokens) {
  Parser parser(o200k(), Role::kAssistant);
  for (const TokenId token : tokens) parser.push(token);
  parser.finish();
  return parser.unfinished_header();
}

TEST(Parse, AHeaderInWhichTheStreamEndsIsNoMessageWhereverItEnds) {
  for (const char* header :
       {"<|channel|>commentary to=functions.drop_dry_run <|constrain|>json",
        " to=functions.drop_dry_run<|channel|>analysis code", "<|channel|>final <|constrain|>json",
        "<|channel|>commentary<|channel|>analysis to=python code",
        "<|channel|>commentary json to=functions.f"}) {
    const std::vector<TokenId> tokens = ids_of(header);
    for (size_t length = 1; length <= tokens.size(); ++length) {
      const std::vector<TokenId> begun(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(length));
      EXPECT_TRUE(parse(begun, Role::kAssistant).empty()) << o200k().decode(begun);
      EXPECT_EQ(unfinished_header(begun), o200k().decode(begun));
    }
  }
  EXPECT_EQ(unfinished_header(ids_of("<|channel|>final<|message|>x<|return|>")), "");
}

TEST(Parse, TextWithoutAHeaderIsNotLostWhereTheStreamEnds) {
  const auto text = [](const char* stream) {
    const auto messages = parse(ids_of(stream), Role::kAssistant);
    return messages.size() == 1 ? messages[0].message.text : "";
  };
  EXPECT_EQ(text("<|channel|>final The answer is 4"), "The answer is 4");
  EXPECT_EQ(text("Once upon a time"), "Once upon a time");
  EXPECT_EQ(text("こんにちは"), "こんにちは");
}

TEST(Parse, SaysHowAHeaderAndAMessageEnded) {
  const auto ends = [](const char* stream) {
    const ParsedMessage parsed = parse(ids_of(stream), Role::kAssistant).at(0);
    return std::pair(parsed.has_cut_header, parsed.ends_in_call);
  };
  EXPECT_EQ(ends("<|channel|>commentary to=f<|message|>{}<|call|>"), std::pair(false, true));
  EXPECT_EQ(ends("<|channel|>commentary to=f<|message|>{}<|end|>"), std::pair(false, false));
  EXPECT_EQ(ends("<|channel|>commentary to=f<|message|>{}"), std::pair(false, false));
  EXPECT_EQ(ends("<|channel|>commentary to=f<|call|>"), std::pair(true, true));
}

TEST(Parse, ThoughtsDoNotLeakIntoTheAnswerThoughItsHeaderIsCutOff) {
  expect(Role::kAssistant, {{"<|channel|>analysis Let me think.<|channel|>final<|message|>4<|return|>",
                             R"([{"role": "assistant", "channel": "analysis", "content": "Let me think.",
            "repairs": ["the header was cut off by <|channel|>"]},
           {"role": "assistant", "channel": "final", "content": "4", "repairs": ["the message began without <|start|>"]}])"}});
}

TEST(Parse, AfterTheFirstWordOfTextNothingIsAField) {
  expect(Role::kAssistant,
         {{"<|channel|>final Set x to=5, or to= 6, in json<|constrain|>now<|return|>",
           R"([{"role": "assistant", "channel": "final", "content": "Set x to=5, or to= 6, in jsonnow",
            "repairs": ["the header was cut off by <|return|>", "<|constrain|> was removed from the text"]}])"}});
}

TEST(Parse, ABlankHeaderIsNoMessage) {
  expect(
      Role::kAssistant,
      {{"", "[]"},
       {"<|return|>", "[]"},
       {" \n", "[]"},
       {"<|start|>assistant<|channel|>final<|message|>x<|return|>",  // repeats the end of the prompt
        R"([{"role": "assistant", "channel": "final", "content": "x", "repairs": ["a blank header was cut off by <|start|>"]}])"},
       {"<|channel|>final<|message|>x<|return|><|end|>\n<|start|>",
        R"([{"role": "assistant", "channel": "final", "content": "x",
            "repairs": ["a blank header was cut off by <|end|>", "a blank header was cut off by the end of the stream"]}])"}});
}

TEST(Parse, TextAfterAMessageIsAMessageOfItsOwn) {
  expect(Role::kAssistant,
         {{"<|channel|>commentary to=functions.f<|message|>{}<|call|> and then<|end|>",
           R"([{"role": "assistant", "channel": "commentary", "recipient": "functions.f", "content": "{}"},
           {"role": "assistant", "content": "and then",
            "repairs": ["the header was cut off by <|end|>", "the message began without <|start|>"]}])"},
          {"<|channel|>analysis<|message|>a<|end|>assistant<|channel|>final<|message|>b<|"
           "return|>",  // only <|start|> is missing
           R"([{"role": "assistant", "channel": "analysis", "content": "a"},
           {"role": "assistant", "channel": "final", "content": "b", "repairs": ["the message began without <|start|>"]}])"},
          {"<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b<|return|>",
           R"([{"role": "assistant", "channel": "analysis", "content": "a"},
           {"role": "assistant", "channel": "final", "content": "b", "repairs": ["the message began without <|start|>"]}])"},
          {"<|channel|>analysis<|message|>a<|end|>\n\n<|start|>assistant<|channel|>final<|"
           "message|>b<|return|>",
           R"([{"role": "assistant", "channel": "analysis", "content": "a"},
           {"role": "assistant", "channel": "final", "content": "b"}])"}});
}

TEST(Parse, ControlTokensAreNeverText) {
  expect(
      Role::kAssistant,
      {{"<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b<|return|>",
        R"([{"role": "assistant", "channel": "analysis", "content": "a", "repairs": ["the message was ended by <|start|>"]},
           {"role": "assistant", "channel": "final", "content": "b"}])"},
       {"<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|return|>",
        R"([{"role": "assistant", "channel": "analysis", "content": "a", "repairs": ["the message was ended by <|channel|>"]},
           {"role": "assistant", "channel": "final", "content": "b", "repairs": ["the message began without <|start|>"]}])"},
       {"<|channel|>final<|message|>a<|message|>b<|constrain|>c<|message|>d<|endoftext|>",
        R"([{"role": "assistant", "channel": "final", "content": "abcd",
            "repairs": ["<|message|> was removed from the text", "<|constrain|> was removed from the text",
                        "<|endoftext|> was removed from the text"]}])"},
       {"<|channel|><|endoftext|>final<|message|>a",
        R"([{"role": "assistant", "channel": "final", "content": "a", "repairs": ["<|endoftext|> was removed from the header"]}])"}});
}

TEST(Parse, TextThatSpellsAControlTokenStaysText) {
  std::vector<TokenId> tokens = ids_of("<|channel|>final<|message|>");
  for (const TokenId token : o200k().encode("<|end|>", SpecialTokens::kOrdinary)) tokens.push_back(token);
  const auto messages = parse(tokens, Role::kAssistant);
  EXPECT_EQ(messages.at(0).message.text, "<|end|>");
  EXPECT_THAT(messages[0].repairs, IsEmpty());
}

TEST(Parse, MarksAreReadThoughASpaceFollowsThemOrTheyAreForgotten) {
  expect(
      Role::kAssistant,
      {{"<|channel|> final<|message|>x<|return|>",
        R"([{"role": "assistant", "channel": "final", "content": "x", "repairs": ["the space before 'final' was removed"]}])"},
       {"analysis<|message|>x<|end|>",
        R"([{"role": "assistant", "channel": "analysis", "content": "x",
            "repairs": ["'analysis' was read as the channel although <|channel|> is missing"]}])"},
       {"<|channel|>commentary to= functions.f <|constrain|> json<|message|>{}<|call|>",
        R"([{"role": "assistant", "channel": "commentary", "recipient": "functions.f", "content_type": "<|constrain|>json",
            "content": "{}", "repairs": ["the space before 'functions.f' was removed", "the space before 'json' was removed"]}])"},
       {"<|channel|>final to=<|message|>x<|return|>",
        R"([{"role": "assistant", "channel": "final", "content": "x", "repairs": ["to= without a recipient was dropped"]}])"}});
}

TEST(Parse, TheContentTypeMayStandBeforeTheRecipient) {
  expect(
      Role::kAssistant,
      {{"<|channel|>commentary json to=functions.f<|message|>{}<|call|>",
        R"([{"role": "assistant", "channel": "commentary", "recipient": "functions.f", "content_type": "json", "content": "{}",
            "repairs": ["the parts of the header were in the wrong order"]}])"},
       {"<|channel|>commentary to=functions.g to=functions.f<|message|>{}<|call|>",
        R"([{"role": "assistant", "channel": "commentary", "recipient": "functions.f", "content": "{}",
            "repairs": ["recipient 'functions.g' was replaced by a later one", "the parts of the header were in the wrong order"]}])"}});
}

TEST(Parse, UnknownRolesAreToolsOrText) {
  expect(
      std::nullopt,
      {{"<|start|>browser.search to=assistant<|channel|>commentary<|message|>x<|end|>",
        R"([{"role": "tool", "name": "browser.search", "recipient": "assistant", "channel": "commentary", "content": "x"}])"},
       {"<|start|>python<|channel|>analysis<|message|>x<|end|>",
        R"([{"role": "tool", "name": "python", "channel": "analysis", "content": "x",
            "repairs": ["the unknown role 'python' was read as a tool's name"]}])"},
       {"<|start|>Sure, here it is<|end|>",
        R"([{"role": "assistant", "content": "Sure, here it is",
            "repairs": ["the header was cut off by <|end|>", "the role is missing; assistant was assumed"]}])"},
       {"<|start|><|channel|>final<|message|>x<|end|>",
        R"([{"role": "assistant", "channel": "final", "content": "x", "repairs": ["the role is missing; assistant was assumed"]}])"},
       {"<|start|>assistant:bot to=functions.f<|channel|>commentary<|message|>x<|call|>",
        R"([{"role": "assistant", "name": "bot", "recipient": "functions.f", "channel": "commentary", "content": "x"}])"}});
}

TEST(Parse, AnIdWithoutATokenIsReplacedAndNothingElseIsLost) {
  std::vector<TokenId> tokens = ids_of("<|channel|>final<|message|>a");
  tokens.insert(tokens.end(), {-1, 5'000'000});
  for (const TokenId token : ids_of("b<|return|>")) tokens.push_back(token);
  const auto messages = parse(tokens, Role::kAssistant);
  EXPECT_EQ(messages.at(0).message.text, "a\uFFFD\uFFFDb");
  EXPECT_THAT(messages[0].repairs, ElementsAre("an id without a token became U+FFFD in the text"));
}

TEST(Parse, AThousandFaultsOfOneKindAreSaidOnce) {
  std::vector<TokenId> tokens = ids_of("<|message|>");
  tokens.insert(tokens.end(), 1000, control(o200k(), "<|constrain|>"));
  EXPECT_EQ(parse(tokens, Role::kAssistant).at(0).repairs.size(), 1u);
}

TEST(Parse, PushingAfterTheEndIsABug) {
  Parser parser(o200k(), Role::kAssistant);
  parser.finish();
  EXPECT_DEATH(parser.push(0), "after finish");
}

}  // namespace
}  // namespace nibble::harmony
