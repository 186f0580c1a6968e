#include "server/api/generation_params.h"
#include "core/text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/anthropic_request.h"
#include "server/api/chat_request.h"
#include "server/api/completion_request.h"
#include "server/api/error.h"
#include "server/api/ollama_request.h"
#include "server/api/response_request.h"
#include "tests/error_of.h"

namespace nibble::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr const char* kUser{R"("messages": [{"role": "user", "content": "hi"}])"};

ChatRequest read_chat(const std::string& more) {
  return read_chat_request("{" + std::string(kUser) + (more.empty() ? "" : ", ") + more + "}");
}
CompletionRequest read_completion(const std::string& more) {
  return read_completion_request(R"({"prompt": "a")" + std::string(more.empty() ? "" : ", ") + more + "}");
}
std::string refusal(const std::string& more) {
  return error_of([&] { read_chat(more); });
}

TEST(ApiRequest, WithoutParametersTheModelsOwnDistributionIsSampled) {
  const GenerationParams params = read_chat("").params;
  EXPECT_EQ(params.sample.temperature, 1);
  EXPECT_EQ(params.sample.top_p, 1);
  EXPECT_EQ(params.sample.top_k, 0);
  EXPECT_EQ(params.sample.num_logprobs, -1);
  EXPECT_FALSE(params.has_seed);
  EXPECT_FALSE(params.max_tokens);
  EXPECT_FALSE(params.stream);
}

TEST(ApiRequest, EveryParameterArrivesWhereItBelongs) {
  const GenerationParams params =
      read_chat(R"("model": "m", "temperature": 0.5, "top_p": 0.25, "top_k": 7, "min_p": 0.125, "seed": 9,
                   "repetition_penalty": 1.5, "presence_penalty": -2, "frequency_penalty": 2,
                   "logit_bias": {"5": -100, "6": 1.5}, "max_tokens": 3.0, "stop": ["x", "y"], "ignore_eos": true,
                   "logprobs": true, "top_logprobs": 4, "stream": true,
                   "stream_options": {"include_usage": true}, "user": {"what": ["nobody", "knows"]}, "n": 3)")
          .params;
  EXPECT_EQ(params.model, "m");
  EXPECT_EQ(params.sample.temperature, 0.5f);
  EXPECT_EQ(params.sample.top_p, 0.25f);
  EXPECT_EQ(params.sample.top_k, 7);
  EXPECT_EQ(params.sample.min_p, 0.125f);
  EXPECT_EQ(params.sample.seed, 9u);
  EXPECT_TRUE(params.has_seed);
  EXPECT_EQ(params.sample.repetition_penalty, 1.5f);
  EXPECT_EQ(params.sample.presence_penalty, -2);
  EXPECT_EQ(params.sample.frequency_penalty, 2);
  EXPECT_THAT(params.sample.logit_bias, ElementsAre(Pair(5, -100.0f), Pair(6, 1.5f)));
  EXPECT_EQ(params.max_tokens, 3);
  EXPECT_THAT(params.stop.strings, ElementsAre("x", "y"));
  EXPECT_TRUE(params.ignore_eos);
  EXPECT_EQ(params.sample.num_logprobs, 4);
  EXPECT_TRUE(params.stream);
  EXPECT_TRUE(params.include_usage);
  EXPECT_EQ(params.num_choices, 3);
}

TEST(ApiRequest, ASeedIsAnyWholeNumberOf64Bits) {
  const auto seed = [](const std::string& text) { return read_chat("\"seed\": " + text).params.sample.seed; };
  EXPECT_EQ(seed("42.0"), 42u);
  EXPECT_EQ(seed("-1.0"), seed("-1"));
  EXPECT_EQ(seed("18446744073709551615"), UINT64_MAX);
  for (const char* not_whole : {"1.5", "1e300", "18446744073709551616", "\"1\"", "true"})
    EXPECT_THAT(refusal("\"seed\": " + std::string(not_whole)),
                HasSubstr("request.seed must be a whole number of at most 64 bits"))
        << not_whole;
}

TEST(ApiRequest, ACallMayLackItsArguments) {
  for (const char* arguments :
       {"", R"(, "arguments": null)", R"(, "arguments": {})", R"(, "arguments": "{}")"}) {
    const std::string function = R"({"name": "f")" + std::string(arguments) + "}";
    for (const std::string& call :
         {R"("tool_calls": [{"id": "1", "type": "function", "function": )" + function + "}]",
          "\"function_call\": " + function}) {
      const ChatRequest request =
          read_chat_request(R"({"messages": [{"role": "assistant", "content": null, )" + call + "}]}");
      EXPECT_EQ(request.chat.messages[0].tool_calls[0].arguments, "{}") << call;
    }
  }
}

TEST(ApiRequest, NullIsAbsent) {
  const ChatRequest request =
      read_chat(R"("temperature": null, "stop": null, "tools": null, "seed": null, "stream": null, "n": null,
                   "reasoning_effort": null, "max_tokens": null, "response_format": null, "tool_choice": null)");
  EXPECT_EQ(request.params.sample.temperature, 1);
  EXPECT_TRUE(request.params.stop.strings.empty());
  EXPECT_EQ(request.chat.reasoning_effort, harmony::ReasoningEffort::kMedium);
}

TEST(ApiRequest, TheNewerNameOfMaxTokensWins) {
  EXPECT_EQ(read_chat(R"("max_tokens": 3, "max_completion_tokens": 5)").params.max_tokens, 5);
}

TEST(ApiRequest, ARefusalNamesFieldValueAndWhatIsAccepted) {
  EXPECT_EQ(refusal(R"("temperature": 7)"), "request.temperature must be a number from 0 to 2, not 7");
  EXPECT_EQ(refusal(R"("top_p": 0)"), "request.top_p must be above 0 and at most 1, not 0");
  EXPECT_EQ(refusal(R"("max_tokens": 1.5)"),
            "request.max_tokens must be a whole number from 1 to 2147483647, not 1.5");
  EXPECT_EQ(refusal(R"("reasoning_effort": "huge")"),
            "request.reasoning_effort must be low, medium or high, not \"huge\"");
  EXPECT_EQ(refusal(R"("logit_bias": {"5": 101})"),
            "request.logit_bias.5 must be a number from -100 to 100, not 101");
  EXPECT_THAT(refusal(R"("stop": [""])"), HasSubstr("request.stop must be a string or a list of at most 16"));
  EXPECT_THAT(refusal(R"("stop": "")"), HasSubstr("request.stop must be a string or a list of at most 16"));
  EXPECT_THAT(refusal(R"("stream": "yes")"), HasSubstr("request.stream must be true or false, not \"yes\""));
  EXPECT_THAT(error_of([] { read_chat_request("[1"); }), HasSubstr("the body is not valid JSON"));
  EXPECT_THAT(error_of([] { read_chat_request("7"); }), HasSubstr("request must be an object, not 7"));
  EXPECT_THAT(error_of([] { read_chat_request("{}"); }), HasSubstr("request.messages is missing"));
  EXPECT_THAT(error_of([] { read_chat_request(R"({"messages": []})"); }), HasSubstr("at least one message"));
}

TEST(ApiRequest, AStopStringHasAtMost1024BytesAloneAndInAList) {
  const std::string longest = '"' + std::string(1024, 'a') + '"',
                    too_long = '"' + std::string(1025, 'a') + '"';
  EXPECT_EQ(read_chat("\"stop\": " + longest).params.stop.strings.front().size(), 1024u);
  EXPECT_EQ(read_chat("\"stop\": [" + longest + "]").params.stop.strings.front().size(), 1024u);
  EXPECT_THAT(refusal("\"stop\": " + too_long), HasSubstr("longer than 1024 bytes"));
  EXPECT_THAT(refusal("\"stop\": [" + too_long + "]"), HasSubstr("longer than 1024 bytes"));
}

TEST(ApiRequest, WhatWouldChangeTheAnswerAndIsNotBuiltIsRefused) {
  for (const char* more : {R"("n": 0)", R"("n": 129)", R"("response_format": {"type": "structural_tag"})",
                           R"("tool_choice": "required")", R"("function_call": {"name": "f"})",
                           R"("tool_choice": {"type": "function", "function": {"name": "f"}})",
                           R"("top_logprobs": 3)", R"("stream_options": {"include_usage": true})"})
    EXPECT_THAT(refusal(more), HasSubstr("must be")) << more;
  EXPECT_EQ(read_chat(R"("response_format": {"type": "text"})").chat.messages.size(), 1u);
}

std::string ignored_by(const std::string& more) { return read_chat(more).params.ignored.text(); }

TEST(ApiRequest, ACompletionIsNotFilledIn) {
  EXPECT_EQ(error_of([] { read_completion(R"("suffix": "x")"); }),
            "request.suffix must be empty, not \"x\": the model does not support infilling");
  EXPECT_NO_THROW(read_completion(R"("suffix": "")"));
}

TEST(ApiRequest, WhatOtherEnginesTakeArrivesToo) {
  const GenerationParams params =
      read_chat(
          R"("stop_token_ids": [3, 4], "min_tokens": 5, "bad_words": ["x", "a b"], "return_token_ids": true,
                   "allowed_token_ids": [9, 2, 9], "include_stop_str_in_output": true, "truncate_prompt_tokens": -1,
                   "stream": true, "stream_options": {"continuous_usage_stats": true})")
          .params;
  EXPECT_THAT(params.stop.tokens, ElementsAre(3, 4));
  EXPECT_EQ(params.stop.min_tokens, 5);
  EXPECT_TRUE(params.stop.keeps_stop);
  EXPECT_THAT(params.bad_words, ElementsAre("x", "a b"));
  EXPECT_THAT(*params.allowed_tokens, ElementsAre(2, 9));
  EXPECT_EQ(params.truncate_prompt, -1);
  EXPECT_TRUE(params.return_token_ids);
  EXPECT_TRUE(params.continuous_usage);
  EXPECT_TRUE(params.ignored.empty());
  EXPECT_TRUE(read_chat(R"("no_stop_trim": true)").params.stop.keeps_stop);  // SGLang's name of this option
  EXPECT_THAT(refusal(R"("allowed_token_ids": [])"), HasSubstr("must be a non-empty list of token ids"));
  EXPECT_THAT(refusal(R"("truncate_prompt_tokens": 0)"), HasSubstr("must be -1, or at least 1"));
}

TEST(ApiRequest, EveryApiTakesAPriorityAndACacheSalt) {
  const std::string both = R"("priority": -3, "cache_salt": "mine")";
  const GenerationParams all[] = {
      read_chat(both).params,
      read_completion(both).params,
      read_response_request(R"({"input": "a", )" + both + "}").params,
      read_anthropic_request("{\"max_tokens\": 9, " + std::string(kUser) + ", " + both + "}", true)
          .chat.params,
      read_ollama_chat("{" + std::string(kUser) + ", " + both + "}").chat.params,
      read_ollama_generate(R"({"prompt": "a", )" + both + "}").chat.params};
  for (const GenerationParams& params : all) {
    EXPECT_EQ(params.priority, -3);
    EXPECT_EQ(params.cache_salt, "mine");
    EXPECT_TRUE(params.ignored.empty());
  }
  const GenerationParams neither = read_chat(R"("cache_salt": null, "priority": null)").params;
  EXPECT_EQ(neither.priority, 0);
  EXPECT_EQ(neither.cache_salt, "");
  const auto salt_of = [](int num_bytes) { return fmt::format(R"("cache_salt": "{:a>{}}")", "", num_bytes); };
  EXPECT_EQ(read_chat(salt_of(1024)).params.cache_salt.size(), 1024u);
  for (const int num_bytes : {0, 1025})
    EXPECT_THAT(refusal(salt_of(num_bytes)),
                HasSubstr("request.cache_salt must be a string of 1 to 1024 bytes, or absent"));
  for (const char* value : {"1.5", "2147483648", "-2147483649", "\"high\"", "true"})
    EXPECT_THAT(refusal(fmt::format(R"("priority": {})", value)),
                HasSubstr("request.priority must be a whole number from -2147483648 to 2147483647"))
        << value;
}

TEST(ApiRequest, MinusOneMeansNoLimitOfTokens) {
  EXPECT_EQ(read_chat(R"("max_tokens": -1)").params.max_tokens, std::nullopt);
  EXPECT_EQ(read_chat(R"("max_completion_tokens": -1, "max_tokens": 5)").params.max_tokens, std::nullopt);
  EXPECT_EQ(read_completion(R"("max_tokens": -1)").params.max_tokens, std::nullopt);
  EXPECT_EQ(read_completion("").params.max_tokens, kDefaultCompletionTokens);
  EXPECT_EQ(read_completion(R"("max_tokens": null)").params.max_tokens, kDefaultCompletionTokens);
  for (const char* more : {R"("max_tokens": 0)", R"("max_tokens": -2)", R"("max_completion_tokens": 0)"})
    EXPECT_THAT(refusal(more), HasSubstr("must be a whole number from 1 to")) << more;
}

TEST(ApiRequest, AnAnswerEitherGoesOnOrBeginsAnew) {
  constexpr const char* kBegun{
      R"({"messages": [{"role": "assistant", "content": "It"}], "continue_final_message": true)"};
  EXPECT_TRUE(read_chat_request(std::string(kBegun) + "}").continues_final);
  EXPECT_TRUE(
      read_chat_request(std::string(kBegun) + R"(, "add_generation_prompt": false})").continues_final);
  EXPECT_EQ(error_of([&] { read_chat_request(std::string(kBegun) + R"(, "add_generation_prompt": true})"); }),
            "request.add_generation_prompt must be false if continue_final_message is true, not true");
}

TEST(ApiRequest, APromptIsTruncatedAtTheRequestedSide) {
  EXPECT_TRUE(
      read_completion(R"("truncate_prompt_tokens": 3, "truncation_side": "right")").params.truncates_end);
  EXPECT_FALSE(
      read_completion(R"("truncate_prompt_tokens": 3, "truncation_side": "left")").params.truncates_end);
  EXPECT_THAT(refusal(R"("truncation_side": "middle")"), HasSubstr("must be \"left\" or \"right\""));
}

TEST(ApiRequest, ACompletionTriesMoreAnswersThanItKeeps) {
  const CompletionRequest request = read_completion(R"("n": 2, "best_of": 5)");
  EXPECT_EQ(request.params.num_choices, 5);
  EXPECT_EQ(request.num_kept, 2);
  EXPECT_EQ(read_completion(R"("n": 2)").num_kept, 2);
  EXPECT_THAT(error_of([] { read_completion(R"("n": 2, "best_of": 1)"); }),
              HasSubstr("from 2 to 128, not 1"));
  EXPECT_THAT(error_of([] { read_completion(R"("best_of": 2, "stream": true)"); }),
              HasSubstr("request.best_of must be equal to n if stream is true"));
}

TEST(ApiRequest, TheEffortHasManyNamesAndLevels) {
  using harmony::ReasoningEffort;
  const auto effort_of = [](const std::string& more) { return read_chat(more).chat.reasoning_effort; };
  EXPECT_EQ(effort_of(R"("reasoning": {"effort": "high"})"), ReasoningEffort::kHigh);
  EXPECT_EQ(effort_of(R"("chat_template_kwargs": {"reasoning_effort": "low"})"), ReasoningEffort::kLow);
  EXPECT_EQ(effort_of(R"("reasoning": {"effort": "high"}, "reasoning_effort": "low")"),
            ReasoningEffort::kLow);
  EXPECT_EQ(effort_of(R"("reasoning_effort": "none")"), ReasoningEffort::kLow);
  EXPECT_EQ(effort_of(R"("reasoning_effort": "xhigh")"), ReasoningEffort::kHigh);
  EXPECT_EQ(ignored_by(R"("reasoning_effort": "minimal")"), "reasoning_effort (low)");
  EXPECT_EQ(ignored_by(R"("reasoning": {"effort": "max"})"), "reasoning.effort (high)");
  EXPECT_EQ(ignored_by(R"("reasoning_effort": "high")"), "");
}

TEST(ApiRequest, WhatHasNoEffectIsNamed) {
  EXPECT_EQ(ignored_by(R"("user": "me", "nobody_knows": 7, "seed": 3)"), "user, nobody_knows");
  EXPECT_EQ(ignored_by(R"("user": null, "service_tier": "auto", "store": false, "verbosity": "medium")"), "");
  EXPECT_EQ(ignored_by(R"("stream": true, "stream_options": {"include_usage": true, "x": 1}, "y": 2)"),
            "stream_options.x, y");
  EXPECT_EQ(ignored_by(R"("stream_options.include_usage": true)"), "stream_options.include_usage");
  EXPECT_EQ(ignored_by("\"a\\r\\nSet-Cookie: b\": 1, \"temperature seed\": 2"),
            "a??Set-Cookie??b, temperature?seed");
  std::string many;
  for (int i = 0; i < 20; ++i) many += fmt::format("{}\"x{}\": 1", i == 0 ? "" : ",", i);
  EXPECT_THAT(ignored_by(many), testing::EndsWith("x14, x15, and 4 more"));
  for (int i = 20; i < 300; ++i) many += fmt::format(",\"x{}\": 1", i);
  EXPECT_THAT(refusal(many), HasSubstr("an object of at most 256 fields"));
}

TEST(ApiRequest, AFieldOfAnotherEngineIsNeverAnsweredAsIfObeyed) {
  for (const char* more :
       {R"("use_beam_search": true)", R"("structural_tag": {})", R"("structured_outputs": {})",
        R"("structured_outputs": {"regex": "a", "disable_any_whitespace": true})", R"("typical_p": 0.5)",
        R"("skip_special_tokens": false)", R"("chat_template": "x")", R"("n_predict": 5)",
        R"("lora_path": "x")", R"("mirostat": 2)", R"("repeat_penalty": 1.1)", R"("audio": {})",
        R"("echo": true)", R"("modalities": ["text", "audio"])",
        R"("chat_template_kwargs": {"builtin_tools": ["browser"]})", R"("web_search_options": {})"})
    EXPECT_THAT(refusal(more), HasSubstr("must be")) << more;
  // These values change nothing, so the fields are not refused.
  EXPECT_EQ(
      ignored_by(R"("use_beam_search": false, "typical_p": 1.0, "skip_special_tokens": true, "mirostat": 0,
                          "n_predict": -1, "modalities": ["text"], "grammar": "", "echo": false)"),
      "");
}

TEST(ApiRequest, ReasoningHasALimitByAnyOfItsNames) {
  EXPECT_EQ(read_chat("").params.max_reasoning_tokens, std::nullopt);
  for (const char* more :
       {R"("thinking_token_budget": 7)", R"("reasoning_budget": 7.0)", R"("thinking_budget": 7)",
        R"("reasoning": {"max_tokens": 7})", R"("thinking_budget": 7, "reasoning_budget": 7)"})
    EXPECT_EQ(read_chat(more).params.max_reasoning_tokens, 7) << more;
  EXPECT_EQ(read_chat(R"("reasoning_budget": 0)").params.max_reasoning_tokens, 0);
  for (const char* more : {R"("reasoning_budget": -1)", R"("thinking_token_budget": null)"}) {
    EXPECT_EQ(read_chat(more).params.max_reasoning_tokens, std::nullopt) << more;
    EXPECT_EQ(ignored_by(more), "");
  }
  EXPECT_EQ(refusal(R"("reasoning_budget": -2)"),
            "request.reasoning_budget must be a whole number from -1 to 2147483647, not -2");
  for (const char* value : {"true", "1.5", "\"7\"", "[7]", "2147483648"})
    EXPECT_THAT(refusal(fmt::format(R"("thinking_token_budget": {})", value)),
                HasSubstr("request.thinking_token_budget must be a whole number"));
  EXPECT_EQ(refusal(R"("thinking_token_budget": 7, "reasoning": {"max_tokens": 8})"),
            "request.reasoning.max_tokens must be equal to request.thinking_token_budget, or absent, not 8");
  EXPECT_THAT(error_of([] { read_completion(R"("thinking_token_budget": 7)"); }),
              HasSubstr("request.thinking_token_budget must be absent"));
}

TEST(ApiRequest, AnAnswerGoesOnWithAMessageOfTheAssistantOnly) {
  const auto read_ending = [](const std::string& message) {
    return read_chat_request(
        R"({"continue_final_message": true, "messages": [{"role": "user", "content": "hi"},)" + message +
        "]}");
  };
  EXPECT_TRUE(read_ending(R"({"role": "assistant", "content": "It"})").continues_final);
  for (const char* message :
       {R"({"role": "user", "content": "It"})",
        R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]})"})
    EXPECT_THAT(error_of([&] { read_ending(message); }),
                HasSubstr("request.continue_final_message must be false"));
}

TEST(ApiRequest, OnlyAnAssistantMayHaveNoContent) {
  const auto refusal_of = [](const std::string& message) {
    return error_of([&] { read_chat_request(R"({"messages": [)" + message + "]}"); });
  };
  for (const char* message : {R"({"role": "user"})", R"({"role": "system", "content": null})",
                              R"({"role": "tool", "tool_call_id": "a"})"})
    EXPECT_EQ(refusal_of(message),
              "request.messages[0].content is missing; it must be a string or a list of text parts")
        << message;
  for (const char* message :
       {R"({"role": "user", "content": ""})", R"({"role": "assistant", "content": null, "reasoning": "Hm."})",
        R"({"role": "assistant", "content": null, "tool_calls": []})", R"({"role": "assistant"})",
        R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]})"})
    EXPECT_EQ(refusal_of(message), "accepted") << message;
}

TEST(ApiRequest, ARefusalIsReadAsText) {
  const auto read_said = [](const std::string& message) {
    return read_chat_request(R"({"messages": [)" + message + "]}").chat.messages[0].text;
  };
  EXPECT_EQ(read_said(R"({"role": "assistant", "content": null, "refusal": "No."})"), "No.");
  EXPECT_EQ(read_said(R"({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]})"), "No.");
}

TEST(ApiRequest, FunctionsAreToolsByTheirOlderName) {
  const std::string functions = R"("functions": [{"name": "f", "parameters": {}}])";
  EXPECT_EQ(read_chat(functions).offered.at(0).name, "f");
  EXPECT_TRUE(read_chat(functions).uses_functions);
  EXPECT_FALSE(read_chat(functions + R"(, "function_call": "none")").offered.at(0).may_be_called);
  EXPECT_THAT(refusal(functions + R"(, "tools": [{"type": "function", "function": {"name": "g"}}])"),
              HasSubstr("request.functions must be absent if tools is present"));
  const std::vector<harmony::ChatMessage> messages =
      read_chat_request(
          R"({"messages": [{"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
                                         {"role": "function", "name": "f", "content": "7"}]})")
          .chat.messages;
  EXPECT_EQ(messages[0].tool_calls.at(0).name, "f");
  EXPECT_EQ(messages[1].role, harmony::Role::kTool);
  EXPECT_EQ(messages[1].tool_name, "f");
}

TEST(ApiRequest, AToolMayTakeOneText) {
  const ChatRequest request =
      read_chat(R"("tools": [{"type": "custom", "custom": {"name": "g", "description": "d",
      "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}}}])");
  EXPECT_EQ(request.offered.at(0).kind, ToolKind::kCustom);
  EXPECT_EQ(request.chat.tools.at(0).description, "d\nThe input follows this grammar (regex):\na+");
  const ChatRequest history = read_chat_request(R"({"messages": [{"role": "assistant", "tool_calls":
      [{"id": "1", "type": "custom", "custom": {"name": "g", "input": "x\"y"}}]}]})");
  EXPECT_EQ(history.chat.messages[0].tool_calls.at(0).arguments, R"({"input":"x\"y"})");
  EXPECT_THAT(refusal(R"("tools": [{"type": "web_search"}])"), HasSubstr("\"function\" or \"custom\""));
}

TEST(ApiRequest, ThereAreAtMost1024Tools) {
  std::string many;
  for (int i = 0; i < 1025; ++i)
    many += fmt::format(R"({}{{"type": "function", "function": {{"name": "f{}"}}}})", i == 0 ? "" : ",", i);
  EXPECT_THAT(refusal("\"tools\": [" + many + "]"),
              HasSubstr("request.tools must be a list of at most 1024"));
}

TEST(ApiRequest, ToolsStayInThePromptWhereTheChoiceIsNone) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": )";
  EXPECT_EQ(read_chat(tools + R"("auto")").chat.tools.size(), 1u);
  EXPECT_EQ(read_chat(tools + R"("none")").chat.tools.size(), 1u);
}

// Returns the tools of a chat that may be called, after a "!" if a call is required.
std::string callable(const std::string& choice) {
  const ChatRequest request = read_chat(R"("tools": [{"type": "function", "function": {"name": "f"}},
      {"type": "custom", "custom": {"name": "g"}}], "tool_choice": )" +
                                        choice);
  // The prompt has both tools, like the prompt of the previous turn.
  EXPECT_EQ(request.chat.tools.size(), 2u);
  std::string names = request.params.must_call ? "!" : "";
  for (const OfferedTool& tool : request.offered)
    if (tool.may_be_called) names += tool.name;
  return names;
}

TEST(ApiRequest, TheChoiceSaysWhichToolsMayBeCalledAndIfOneMust) {
  EXPECT_EQ(callable(R"("auto")"), "fg");
  EXPECT_EQ(callable(R"("none")"), "");
  EXPECT_EQ(callable(R"("required")"), "!fg");
  EXPECT_EQ(callable(R"({"type": "function", "function": {"name": "f"}})"), "!f");
  EXPECT_EQ(callable(R"({"type": "custom", "custom": {"name": "g"}})"), "!g");
  const auto allowed = [](const char* mode, const char* tools) {
    return callable(fmt::format(
        R"({{"type": "allowed_tools", "allowed_tools": {{"mode": "{}", "tools": {}}}}})", mode, tools));
  };
  EXPECT_EQ(allowed("auto", R"([{"type": "function", "function": {"name": "f"}}])"), "f");
  EXPECT_EQ(allowed("required", R"([{"type": "function", "function": {"name": "f"}}])"), "!f");
  EXPECT_EQ(allowed("auto", "[]"), "");
  EXPECT_THAT(error_of([&] { allowed("auto", R"([{"type": "function", "function": {"name": "h"}}])"); }),
              HasSubstr("tools[0] must be a tool of the request"));
  EXPECT_THAT(error_of([&] { allowed("required", "[]"); }), HasSubstr("if no tool is offered"));
  EXPECT_THAT(error_of([] { callable(R"({"type": "function", "function": {"name": "h"}})"); }),
              HasSubstr("request.tool_choice must be a tool of the request"));
  EXPECT_THAT(error_of([] { callable(R"("must")"); }), HasSubstr("allowed_tools"));
  // The response format does not change which tools may be called: agents send the format of their final
  // answer in every turn.
  EXPECT_EQ(callable(R"("required", "response_format": {"type": "json_object"})"), "!fg");
  const ChatRequest older =
      read_chat(R"("functions": [{"name": "f"}, {"name": "g"}], "function_call": {"name": "g"})");
  EXPECT_TRUE(older.params.must_call);
  EXPECT_FALSE(older.offered[0].may_be_called);
}

// Returns the language and source of the requested output format.
std::string format_of(const std::string& more) {
  const OutputFormat format = read_chat(more).params.format;
  if (!format.source) return "";
  constexpr const char* kNames[]{"object", "schema", "regex", "choice", "gbnf", "ebnf", "ebnf or lark"};
  return fmt::format("{}{} {}{}", kNames[static_cast<int>(format.source->language)],
                     format.source->is_strict ? "!" : "", format.source->text,
                     format.told ? " told as " + format.told->name : "");
}

TEST(ApiRequest, TheFormOfTheAnswerIsReadInTheWordsOfEveryEngine) {
  EXPECT_EQ(format_of(R"("response_format": {"type": "text"})"), "");
  EXPECT_EQ(format_of(R"("response_format": {"type": "json_object"})"), "object  told as json_object");
  EXPECT_EQ(format_of(R"("response_format": {"type": "json_object", "schema": {"a": 1}})"),
            R"(schema {"a":1} told as response)");
  EXPECT_EQ(format_of(R"("response_format": {"type": "json_schema", "json_schema":
                         {"name": "x", "strict": true, "schema": {"type": "null"}}})"),
            R"(schema! {"type":"null"} told as x)");
  EXPECT_EQ(format_of(R"("guided_json": {})"), "schema {} told as response");
  EXPECT_EQ(format_of(R"("guided_json": "{\"a\": 1}")"), R"(schema {"a": 1} told as response)");
  EXPECT_EQ(format_of(R"("guided_regex": "a+")"), "regex a+");
  EXPECT_EQ(format_of(R"("guided_choice": ["a", "b"])"), R"(choice ["a","b"])");
  EXPECT_EQ(format_of(R"("guided_grammar": "start: X")"), "ebnf or lark start: X");
  EXPECT_EQ(format_of(R"("structured_outputs": {"json": {"a": 1}})"), R"(schema {"a":1} told as response)");
  EXPECT_EQ(format_of(R"("structured_outputs": {"regex": "a", "backend": "x"})"), "regex a");
  EXPECT_EQ(format_of(R"("structured_outputs": {"choice": ["a"]})"), R"(choice ["a"])");
  EXPECT_EQ(format_of(R"("structured_outputs": {"grammar": "g"})"), "ebnf or lark g");
  EXPECT_EQ(format_of(R"("structured_outputs": {"json_object": true})"), "object  told as json_object");
  EXPECT_EQ(format_of(R"("regex": "a")"), "regex a");
  EXPECT_EQ(format_of(R"("ebnf": "root ::= A")"), "ebnf root ::= A");
  EXPECT_EQ(format_of(R"("grammar": "root ::= a")"), "gbnf root ::= a");
  EXPECT_EQ(format_of(R"("json_schema": {"a": 1})"), R"(schema {"a":1} told as response)");
  EXPECT_EQ(format_of(R"("json_schema": {}, "grammar": "")"), "");
}

TEST(ApiRequest, AFormThatCanNotBeReadIsRefused) {
  EXPECT_THAT(refusal(R"("regex": "a", "ebnf": "b")"),
              HasSubstr("request.ebnf must be absent if request.regex is present"));
  EXPECT_THAT(refusal(R"("response_format": {"type": "json_schema"})"),
              HasSubstr("response_format.schema is missing"));
  EXPECT_THAT(refusal(R"("response_format": {"type": "json_schema", "schema": 3})"),
              HasSubstr("response_format.schema must be a JSON schema"));
  EXPECT_THAT(refusal(R"("guided_choice": [1])"), HasSubstr("guided_choice[0] must be"));
  EXPECT_THAT(refusal(R"("regex": "a", "ignore_eos": true)"), HasSubstr("request.ignore_eos must be false"));
}

TEST(ApiRequest, AClientCanNotSetWhatTheApiDoesNotHave) {
  const ChatRequest request =
      read_chat(R"("date": "1999-01-01", "developer": "obey", "model_identity": "X")");
  EXPECT_FALSE(request.chat.date);
  EXPECT_TRUE(request.chat.instructions.empty());
  EXPECT_FALSE(request.chat.model_identity);
}

TEST(ApiRequest, ACompletionTakesTextOrIdsAndSixteenTokens) {
  EXPECT_THAT(read_completion("").prompts, ElementsAre(Prompt("a")));
  EXPECT_EQ(read_completion("").params.max_tokens, 16);
  const CompletionRequest ids = read_completion_request(R"({"prompt": [1, 2], "logprobs": 2})");
  EXPECT_THAT(ids.prompts, ElementsAre(Prompt(std::vector<TokenId>{1, 2})));
  EXPECT_EQ(ids.params.sample.num_logprobs, 2);
  for (const char* prompt :
       {"[]", "[-1]", "[1.5]", "[4294967296]", "[\"a\", 1]", "[[1], [-1]]", "[[[1]]]", "7", "{}"})
    EXPECT_THAT(error_of([&] { read_completion_request(fmt::format(R"({{"prompt": {}}})", prompt)); }),
                testing::AllOf(testing::StartsWith("request.prompt"), HasSubstr("must be a string"),
                               HasSubstr("a list of token ids")))
        << prompt;
  EXPECT_THAT(read_completion_request(R"({"prompt": ["a", [1, 2], "b"]})").prompts,
              ElementsAre(Prompt("a"), Prompt(std::vector<TokenId>{1, 2}), Prompt("b")));
  EXPECT_EQ(read_completion(R"("echo": true, "logprobs": 1, "max_tokens": 0)").params.max_tokens, 0);
  EXPECT_EQ(read_completion(R"("prompt_logprobs": 3)").params.prompt_logprobs, 3);
  EXPECT_THAT(refusal(R"("max_tokens": 0)"), HasSubstr("from 1"));
  EXPECT_THAT(refusal(R"("prompt_logprobs": 1, "stream": true)"), HasSubstr("absent if stream is true"));
}

TEST(ApiError, SaysWhichParameterItWas) {
  const HttpError error = to_http_error(InputError("{}", refusal(R"("temperature": 7)")));
  EXPECT_EQ(error_json(error).dump(),
            R"({"error":{"message":"temperature must be a number from 0 to 2, not 7",)"
            R"("type":"invalid_request_error","param":"temperature","code":null}})");
  EXPECT_TRUE(to_http_error(InputError("the body is not valid JSON")).param.empty());
}

}  // namespace
}  // namespace nibble::server
