#include "server/api/chat_answer.h"
#include "core/text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/numbers/random.h"
#include "server/api/reply.h"
#include "tests/server/tiny.h"

namespace nibble::server {
namespace {

using testing::HasSubstr;
using testing::Not;

// Accumulates the deltas of a stream as OpenAI's client does.
struct Client {
  std::string reasoning, content;
  std::vector<ChatAnswer::Call> calls;
  size_t num_content_tokens{0};

  void take(const std::vector<AnswerDelta>& deltas) {
    for (const AnswerDelta& delta : deltas) {
      const Json json = to_json(delta);
      reasoning += json.value("reasoning_content", "");
      content += json.value("content", "");
      num_content_tokens += delta.tokens.size();
      if (!json.contains("tool_calls")) continue;
      const Json& call = json["tool_calls"][0];
      const size_t index = call["index"];
      if (index == calls.size()) calls.emplace_back();
      calls.at(index).id += call.value("id", "");
      calls[index].tool.name += call["function"].value("name", "");
      calls[index].arguments += call["function"].value("arguments", "");
    }
  }
};

using Stops = std::vector<std::string>;

struct Both {
  ChatAnswer whole;
  Client streamed;
};
Both listen(const std::vector<TokenId>& tokens, bool with_tools, const Stops& stop = {}) {
  std::vector<OfferedTool> tools;
  if (with_tools) tools.push_back({"get_time"});
  Both both{ChatAnswer(tiny(), tools, {.strings = stop}), {}};
  for (const TokenId token : tokens) both.streamed.take(both.whole.push({.token = token}));
  both.streamed.take(both.whole.finish());
  return both;
}
Both listen(const std::string& said, bool with_tools, const Stops& stop = {}) {
  return listen(tiny().encode(said, SpecialTokens::kRecognise), with_tools, stop);
}

constexpr const char* kCall{
    "<|channel|>analysis<|message|>Need the "
    "clock.<|end|><|start|>assistant<|channel|>commentary<|message|>Let "
    "me look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_time "
    "<|constrain|>json<|message|>{\"zone\": \"Europe/Oslo\"}<|call|>"};

TEST(ChatAnswer, ReasoningContentAndCallsAreSeparated) {
  const ChatAnswer answer = listen(kCall, true).whole;
  EXPECT_EQ(answer.reasoning(), "Need the clock.");
  EXPECT_EQ(answer.content(), "Let me look.");
  ASSERT_EQ(answer.calls().size(), 1u);
  EXPECT_EQ(answer.calls()[0].tool.name, "get_time");
  EXPECT_EQ(answer.calls()[0].arguments, "{\"zone\": \"Europe/Oslo\"}");
  EXPECT_EQ(answer.calls()[0].id.substr(0, 5), "call_");
  EXPECT_EQ(answer.num_reasoning_tokens(),
            static_cast<int>(tiny().encode("Need the clock.", SpecialTokens::kOrdinary).size()));
  EXPECT_EQ(finish_reason(FinishReason::kStopToken, true), "tool_calls");
  EXPECT_EQ(finish_reason(FinishReason::kMaxTokens, true), "length");  // the call may be incomplete
}

TEST(ChatAnswer, DeltasOfSeveralTokensAddUpToTheSameAnswer) {
  const std::vector<TokenId> tokens = tiny().encode(kCall, SpecialTokens::kRecognise);
  const auto num_deltas = [&](int interval) {
    ChatAnswer answer(tiny(), {{"get_time"}}, {}, {}, interval);
    Client client;
    size_t num = 0;
    const auto take = [&](const std::vector<AnswerDelta>& deltas) {
      num += deltas.size();
      client.take(deltas);
    };
    for (const TokenId token : tokens) take(answer.push({.token = token}));
    take(answer.finish());
    EXPECT_EQ(client.reasoning, "Need the clock.");
    EXPECT_EQ(client.content, "Let me look.");
    EXPECT_EQ(client.calls.at(0).arguments, "{\"zone\": \"Europe/Oslo\"}");
    EXPECT_EQ(client.calls[0].id, answer.calls()[0].id);
    EXPECT_EQ(client.num_content_tokens, answer.content_tokens().size());
    return num;
  };
  // The first delta is sent at once. The rest of the reasoning, the content and the call follow at the end.
  EXPECT_LE(num_deltas(1000), 5u);
  EXPECT_LT(num_deltas(1000), num_deltas(4));
  EXPECT_LT(num_deltas(4), num_deltas(1));
}

TEST(ChatAnswer, ACallWithoutToolsIsContentAndNotLost) {
  const ChatAnswer answer = listen(kCall, false).whole;
  EXPECT_TRUE(answer.calls().empty());
  EXPECT_EQ(answer.content(), "Let me look.\n\n{\"zone\": \"Europe/Oslo\"}");
}

TEST(ChatAnswer, ACallOfAToolThatWasNotOfferedIsNoCall) {
  const ChatAnswer answer = listen("<|channel|>analysis to=python code<|message|>1+1<|call|>", true).whole;
  EXPECT_TRUE(answer.calls().empty());
  EXPECT_EQ(answer.reasoning(), "1+1");
}

TEST(ChatAnswer, AnOfferedNameWithoutItsNamespaceIsACall) {
  const ChatAnswer answer = listen("<|channel|>commentary to=get_time json<|message|>{}<|call|>", true).whole;
  ASSERT_EQ(answer.calls().size(), 1u);
  EXPECT_EQ(answer.calls()[0].tool.name, "get_time");
}

TEST(ChatAnswer, ACallWithoutArgumentsHasAnEmptyObject) {
  EXPECT_EQ(listen("<|channel|>commentary to=functions.get_time<|message|><|call|>", true)
                .streamed.calls.at(0)
                .arguments,
            "{}");
}

TEST(ChatAnswer, AStopStringEndsTheContentAndIsNotLookedForInReasoning) {
  const Both both = listen(
      "<|channel|>analysis<|message|>END of thought<|end|><|start|>assistant<|channel|>final<|message|>It is "
      "42. END "
      "it.<|return|>",
      false, {" END"});
  EXPECT_TRUE(both.whole.has_stopped());
  EXPECT_EQ(both.whole.reasoning(), "END of thought");
  EXPECT_EQ(both.whole.content(), "It is 42.");
}

// Returns the content of an answer that stops according to `stop`.
std::string content_with(const StopParams& stop, const std::string& said, const std::string& begun = "") {
  ChatAnswer answer(tiny(), {}, stop, tiny().encode(begun, SpecialTokens::kRecognise));
  for (const TokenId token : tiny().encode(said, SpecialTokens::kRecognise)) answer.push({.token = token});
  answer.finish();
  return answer.reasoning() + "|" + answer.content();
}

// Returns the calls in an answer as "space.name(arguments)", and checks that a stream adds up to them.
std::string calls_in(const std::string& said, const std::vector<OfferedTool>& tools) {
  ChatAnswer answer(tiny(), tools, {});
  std::string calls, streamed;
  const auto add = [&](const std::vector<AnswerDelta>& deltas) {
    for (const AnswerDelta& delta : deltas) streamed += delta.text;
  };
  for (const TokenId token : tiny().encode(said, SpecialTokens::kRecognise))
    add(answer.push({.token = token}));
  add(answer.finish());
  std::string texts;
  for (const ChatAnswer::Call& call : answer.calls()) {
    calls += call.tool.space + "." + call.tool.name + "(" + call.arguments + ")";
    texts += call.arguments;
  }
  EXPECT_EQ(streamed, texts + answer.content());
  return calls;
}

TEST(ChatAnswer, AToolOfANamespaceIsCalledByBothNames) {
  const std::vector<OfferedTool> tools{{"search", "mail"}, {"now"}};
  EXPECT_EQ(calls_in("<|channel|>commentary to=mail.search json<|message|>{}<|call|>", tools),
            "mail.search({})");
  EXPECT_EQ(calls_in("<|channel|>commentary to=search json<|message|>{}<|call|>", tools), "mail.search({})");
  EXPECT_EQ(calls_in("<|channel|>commentary to=functions.now<|message|>{}<|call|>", tools),
            "functions.now({})");
  EXPECT_EQ(calls_in("<|channel|>commentary to=other.search<|message|>{}<|call|>", tools), "");
}

TEST(ChatAnswer, AToolThatTakesOneTextGetsThatText) {
  const std::vector<OfferedTool> tools{{"patch", "functions", ToolKind::kCustom}};
  const std::string begin = "<|channel|>commentary to=functions.patch <|constrain|>json<|message|>";
  EXPECT_EQ(calls_in(begin + R"({"input": "a\nb"}<|call|>)", tools), "functions.patch(a\nb)");
  // Arguments that are not JSON with "input" are passed on unchanged.
  EXPECT_EQ(calls_in(begin + "*** Begin<|call|>", tools), "functions.patch(*** Begin)");
  EXPECT_EQ(calls_in(begin + R"({"input": ""}<|call|>)", tools), "functions.patch()");
}

TEST(ChatAnswer, AToolThatTakesOneTextGetsTheTextSoFarWhereItIsCutOff) {
  const std::vector<OfferedTool> tools{{"patch", "functions", ToolKind::kCustom}};
  const std::string begin = "<|channel|>commentary to=functions.patch <|constrain|>json<|message|>";
  const std::string arguments = R"({ "input": "a\nb\"c\ud83d\ude00d" })", text = "a\nb\"c😀d";
  for (size_t length = 0; length <= arguments.size(); ++length) {
    const std::string call = calls_in(begin + arguments.substr(0, length), tools);
    ASSERT_EQ(call.substr(0, 16), "functions.patch(");
    const std::string said = call.substr(16, call.size() - 17);
    EXPECT_EQ(said, text.substr(0, said.size())) << call;
    EXPECT_TRUE(said == text || length + 2 < arguments.size()) << call;
  }
  EXPECT_EQ(calls_in(begin + "*** Begin", tools), "functions.patch(*** Begin)");
}

// Tests each prefix of an answer that calls a tool whose name begins with another tool's name.
TEST(ChatAnswer, ACallThatIsCutOffIsNoOtherCallAndNoText) {
  const std::vector<OfferedTool> tools{{"drop"}, {"drop_dry_run"}};
  const std::string arguments = R"({"path":"a"})";
  for (const std::string header :
       {"<|channel|>commentary to=functions.drop_dry_run <|constrain|>json<|message|>",
        " to=functions.drop_dry_run<|channel|>analysis code<|message|>",
        "<|channel|>commentary to=drop_dry_run<|message|>"}) {
    const std::vector<TokenId> tokens = tiny().encode(header + arguments, SpecialTokens::kRecognise);
    const size_t num_header = tiny().encode(header, SpecialTokens::kRecognise).size();
    for (size_t length = 1; length <= tokens.size(); ++length) {
      ChatAnswer answer(tiny(), tools, {});
      for (size_t i = 0; i < length; ++i) answer.push({.token = tokens[i]});
      answer.finish();
      EXPECT_EQ(answer.content() + answer.reasoning(), "") << header << length;
      EXPECT_FALSE(answer.ends_in_call());
      EXPECT_EQ(answer.has_cut_call(), length >= num_header);
      ASSERT_EQ(answer.calls().size(), length >= num_header ? 1u : 0u) << header << length;
      if (length < num_header) continue;
      EXPECT_EQ(answer.calls()[0].tool.name, "drop_dry_run");
      EXPECT_EQ(answer.calls()[0].arguments,
                tiny().decode(std::span(tokens).subspan(num_header, length - num_header)));
    }
  }
}

TEST(ChatAnswer, AControlTokenThatStopsTheAnswerEndsNoHeader) {
  for (const char* stop : {"<|channel|>", "<|message|>", "<|constrain|>"}) {
    const TokenId id = tiny().encode(stop, SpecialTokens::kRecognise).front();
    ChatAnswer answer(tiny(), {{"get_time"}}, {.tokens = {id}});
    for (const TokenId token :
         tiny().encode("<|channel|>commentary to=functions.get_time <|constrain|>json<|message|>",
                       SpecialTokens::kRecognise)) {
      answer.push({.token = token});
      if (token == id) break;
    }
    answer.finish();
    EXPECT_TRUE(answer.calls().empty()) << stop;
    EXPECT_EQ(answer.content(), "") << stop;
  }
}

TEST(ChatAnswer, ACallWithoutAHeadersEndIsACallOnlyIfItHasArguments) {
  const std::vector<OfferedTool> tools{{"now"}};
  EXPECT_EQ(calls_in("<|channel|>commentary to=functions.now json{\"a\":1}<|call|>", tools),
            "functions.now({\"a\":1})");
  EXPECT_EQ(calls_in("<|channel|>commentary to=functions.now<|call|>", tools), "");
}

TEST(ChatAnswer, OnlyToolsThatMayBeCalledAreCalledAndNoBeginningOfTheirNames) {
  const auto call = [](const std::string& name, const std::vector<OfferedTool>& tools) {
    return calls_in("<|channel|>commentary to=functions." + name + "<|message|>{}<|call|>", tools);
  };
  const std::vector<OfferedTool> tools{{"drop_dry_run"}, {"drop"}};
  EXPECT_EQ(call("drop", tools), "functions.drop({})");
  EXPECT_EQ(call("drop_dry_run", tools), "functions.drop_dry_run({})");
  EXPECT_EQ(call("drop_d", tools), "");
  EXPECT_EQ(call("other", tools), "functions.other({})");
  std::vector<OfferedTool> forbidden = tools;
  for (OfferedTool& tool : forbidden) tool.may_be_called = false;
  EXPECT_EQ(call("drop", forbidden), "");
  EXPECT_EQ(call("other", forbidden), "");
}

TEST(ChatAnswer, AStopTokenHasNoTextUnlessItIsKept) {
  const TokenId end = tiny().encode("!", SpecialTokens::kOrdinary).front();
  EXPECT_EQ(content_with({.tokens = {end}}, "<|channel|>final<|message|>Yes!"), "|Yes");
  EXPECT_EQ(content_with({.tokens = {end}, .keeps_stop = true}, "<|channel|>final<|message|>Yes!"), "|Yes!");
  EXPECT_EQ(content_with({.strings = {"s!"}, .keeps_stop = true}, "<|channel|>final<|message|>Yes! No"),
            "|Yes!");
}

TEST(ChatAnswer, InTheFirstTokensNoStopStringIsLookedFor) {
  const std::string said = "<|channel|>final<|message|>no no";
  const int num_header = 3;
  EXPECT_EQ(content_with({.strings = {"no"}}, said), "|");
  EXPECT_EQ(content_with({.min_tokens = num_header + 1, .strings = {"no"}}, said), "|no ");
}

TEST(ChatAnswer, AMessageThatThePromptHasBegunGoesOn) {
  EXPECT_EQ(content_with({}, " = 42.<|return|>", "<|channel|>final<|message|>"), "| = 42.");
  EXPECT_EQ(content_with({}, "so<|end|><|start|>assistant<|channel|>final<|message|>Yes",
                         "<|channel|>analysis<|message|>"),
            "so|Yes");
}

TEST(ChatAnswer, MalformedAnswersAreNeitherEmptyNorCarryControlTokens) {
  for (const char* said :
       {"Just some words.", "Just words.<|return|>", "<|message|>words<|end|>",
        "<|channel|>final words<|return|>", "<|channel|>",
        "<|channel|>final<|message|>wo<|channel|>rds<|start|><|start|>more words<|end|>",
        "<|start|>user<|message|>words", "<|channel|>oops<|message|>words<|call|>",
        "words<|call|>words<|message|>", "<|channel|>commentary to=functions.<|message|>words<|call|>"}) {
    const ChatAnswer answer = listen(said, true).whole;
    EXPECT_THAT(answer.content(), Not(HasSubstr("<|"))) << said;
    const bool says_words = std::string(said).find("words") != std::string::npos;
    EXPECT_THAT(answer.content(), HasSubstr(says_words ? "words" : "")) << said;
  }
}

TEST(ChatAnswer, TheContentsTokensAreThoseOfItsText) {
  const Both both = listen(kCall, true);
  std::vector<TokenId> ids;
  for (const SampledToken& token : both.whole.content_tokens()) ids.push_back(token.token);
  EXPECT_EQ(tiny().decode(ids), "Let me look.");
  EXPECT_EQ(both.streamed.num_content_tokens, ids.size());
}

// Replaces, inserts and removes tokens of a well-formed answer, as a broken model might. Half of the new
// tokens are control tokens.
TEST(ChatAnswer, AStreamAddsUpToTheWholeAnswerWhateverIsSaid) {
  const std::vector<TokenId> wellformed = tiny().encode(kCall, SpecialTokens::kRecognise);
  const std::vector<TokenId> control = tiny().encode(
      "<|start|><|channel|><|message|><|end|><|call|><|return|><|constrain|>", SpecialTokens::kRecognise);
  size_t num_with_calls = 0, num_with_content = 0;
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    std::vector<TokenId> tokens = wellformed;
    for (uint64_t edit = 0; edit < 1 + seed % 6; ++edit) {
      const uint64_t bits = random_bits(seed, edit);
      const size_t at = (bits >> 8) % tokens.size();
      const TokenId other =
          bits & 1 ? control[(bits >> 32) % control.size()]
                   : static_cast<TokenId>((bits >> 32) % static_cast<uint64_t>(tiny().num_tokens()));
      if (bits & 2)
        tokens[at] = other;
      else if (bits & 4)
        tokens.insert(tokens.begin() + static_cast<ptrdiff_t>(at), other);
      else if (tokens.size() > 1)
        tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(at));
    }
    const Both both = listen(tokens, /*with_tools=*/seed % 4 != 0, seed % 3 == 0 ? Stops{"look"} : Stops{});
    const ChatAnswer& whole = both.whole;
    ASSERT_EQ(both.streamed.content, whole.content()) << seed;
    ASSERT_EQ(both.streamed.reasoning, whole.reasoning()) << seed;
    ASSERT_EQ(both.streamed.num_content_tokens, whole.content_tokens().size()) << seed;
    ASSERT_EQ(both.streamed.calls.size(), whole.calls().size()) << seed;
    for (size_t i = 0; i < whole.calls().size(); ++i) {
      ASSERT_EQ(both.streamed.calls[i].id, whole.calls()[i].id) << seed;
      ASSERT_EQ(both.streamed.calls[i].tool.name, whole.calls()[i].tool.name) << seed;
      ASSERT_EQ(both.streamed.calls[i].arguments, whole.calls()[i].arguments) << seed;
    }
    for (const TokenId token : control)
      ASSERT_THAT(whole.content(), Not(HasSubstr(std::string(tiny().bytes(token))))) << seed;
    num_with_calls += !whole.calls().empty();
    num_with_content += !whole.content().empty();
  }
  EXPECT_GT(num_with_calls, 1000u);  // otherwise the test compares too little
  EXPECT_GT(num_with_content, 1000u);
}

}  // namespace
}  // namespace nibble::server
