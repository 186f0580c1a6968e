// Tests that the chunks of a stream add up to the whole answer of the same tokens, however the text is split
// into tokens. The streams are those of tests/data/harmony_parse.jsonl, well-formed or not, and mutations of
// these streams, each split at random: 10,000 in all. (reply_test and chat_answer_test test the parts. This
// test compares the JSON that a client gets.)
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "core/numbers/random.h"
#include "core/text/json.h"
#include "server/api/reply.h"
#include "tests/server/tiny.h"

namespace nibble::server {
namespace {

struct Random {
  uint64_t seed, counter{0};
  size_t below(size_t n) { return random_bits(seed, counter++) % n; }
};

// Returns the tokens of the vocabulary by their bytes, without control tokens.
const std::map<std::string, TokenId, std::less<>>& ordinary() {
  static const auto by_bytes = [] {
    std::map<std::string, TokenId, std::less<>> map;
    for (TokenId id = 0; id < tiny().num_tokens(); ++id)
      if (!tiny().is_special(id)) map.emplace(tiny().bytes(id), id);
    return map;
  }();
  return by_bytes;
}

// Splits the same bytes into other tokens. Control tokens stay.
std::vector<TokenId> cut_anew(const std::vector<TokenId>& tokens, Random& random) {
  std::vector<TokenId> cut;
  std::string text;
  const auto flush = [&] {
    for (size_t begin = 0; begin < text.size();) {
      size_t length = 1 + random.below(std::min<size_t>(12, text.size() - begin));
      while (!ordinary().contains(std::string_view(text).substr(begin, length)))
        --length;  // a single byte is always a token
      cut.push_back(ordinary().find(std::string_view(text).substr(begin, length))->second);
      begin += length;
    }
    text.clear();
  };
  for (const TokenId token : tokens) {
    if (!tiny().is_special(token)) {
      text += tiny().bytes(token);
      continue;
    }
    flush();
    cut.push_back(token);
  }
  flush();
  return cut;
}

std::vector<std::vector<TokenId>> recorded_streams() {
  std::vector<std::vector<TokenId>> streams;
  std::ifstream file(test::source_path("tests/data/harmony_parse.jsonl"));
  for (std::string line; std::getline(file, line);)
    streams.push_back(tiny().encode(Json::parse(line)["text"].get<std::string>(), SpecialTokens::kRecognise));
  return streams;
}

// Mutates a stream as a bad model would: tokens are lost, doubled or replaced, and control tokens are in
// wrong places.
std::vector<TokenId> mutilated(std::vector<TokenId> tokens, Random& random) {
  static const std::vector<TokenId> control = tiny().encode(
      "<|start|><|channel|><|message|><|end|><|call|><|return|><|constrain|>", SpecialTokens::kRecognise);
  for (size_t edits = random.below(5); edits > 0 && !tokens.empty(); --edits) {
    const auto at = tokens.begin() + static_cast<ptrdiff_t>(random.below(tokens.size()));
    const TokenId other =
        random.below(2) ? control[random.below(control.size())]
                        : static_cast<TokenId>(random.below(256));  // any byte, including half a character
    switch (random.below(3)) {
      case 0:
        *at = other;
        break;
      case 1:
        tokens.insert(at, other);
        break;
      default:
        tokens.erase(at);
    }
  }
  return tokens;
}

const std::vector<OfferedTool>& tools() {
  static const std::vector<OfferedTool> offered{{"f"}, {"get_weather"}};
  return offered;
}

// Compares objects regardless of the order of members.
using Message = nlohmann::json;

// Returns the message of the whole answer without the ids of calls, which are random.
Message whole_message(const std::vector<TokenId>& tokens, bool with_tools,
                      const std::vector<std::string>& stop) {
  ChatAnswer answer(tiny(), with_tools ? tools() : std::vector<OfferedTool>(), {.strings = stop});
  for (const TokenId token : tokens) answer.push({.token = token});
  answer.finish();
  Message message = Message::parse(print(chat_choice(0, answer, "stop", nullptr)["message"]));
  if (message.contains("tool_calls"))
    for (Message& call : message["tool_calls"]) call.erase("id");
  return message;
}

// Accumulates the chunks of a stream as OpenAI's client does.
Message streamed_message(const std::vector<TokenId>& tokens, bool with_tools,
                         const std::vector<std::string>& stop) {
  ChatAnswer answer(tiny(), with_tools ? tools() : std::vector<OfferedTool>(), {.strings = stop});
  std::map<std::string, std::string> texts;
  std::vector<Message> calls;
  std::set<std::string> ids;
  const auto hear = [&](const std::vector<AnswerDelta>& deltas) {
    for (const AnswerDelta& part : deltas) {
      const Message delta = Message::parse(print(to_json(part)));
      for (const auto& [name, value] : delta.items())
        if (value.is_string()) texts[name] += value.get<std::string>();
      if (!delta.contains("tool_calls")) continue;
      for (const Message& call : delta["tool_calls"]) {
        const size_t index = call["index"];
        if (index == calls.size()) {
          ids.insert(call["id"].get<std::string>());
          calls.push_back({{"type", call["type"]}, {"function", {{"name", ""}, {"arguments", ""}}}});
        }
        for (const char* field : {"name", "arguments"})
          calls.at(index)["function"][field] =
              calls[index]["function"][field].get<std::string>() + call["function"].value(field, "");
      }
    }
  };
  for (const TokenId token : tokens) hear(answer.push({.token = token}));
  hear(answer.finish());
  EXPECT_EQ(ids.size(), calls.size());
  Message message{{"role", "assistant"}, {"refusal", nullptr}};
  message["content"] = texts["content"].empty() && !calls.empty() ? Message() : Message(texts["content"]);
  for (const char* name : {"reasoning_content", "reasoning"})
    if (!texts[name].empty()) message[name] = texts[name];
  if (!calls.empty()) message["tool_calls"] = calls;
  return message;
}

void expect_no_control_token(const Message& message, const std::vector<TokenId>& tokens) {
  static const std::vector<std::string> names{"<|start|>",     "<|end|>",  "<|message|>", "<|channel|>",
                                              "<|constrain|>", "<|call|>", "<|return|>",  "<|endoftext|>"};
  const std::string said = message.dump();
  for (const std::string& name : names)
    ASSERT_EQ(said.find(name), std::string::npos) << said << "\n" << tiny().decode(tokens);
}

TEST(StreamDifferential, AStreamAndAWholeAnswerAreOneMessageHoweverTheTextIsCut) {
  constexpr uint64_t kNumSplits{10'000};
  const std::vector<std::vector<TokenId>> recorded = recorded_streams();
  ASSERT_GT(recorded.size(), 10u);
  size_t num_cut = 0, num_calls = 0, num_contents = 0, num_reasonings = 0;
  for (uint64_t n = 0; n < kNumSplits; ++n) {
    Random random{n};
    std::vector<TokenId> said = recorded[n % recorded.size()];
    if (random.below(3) > 0) said = mutilated(std::move(said), random);
    const bool with_tools = random.below(4) > 0;
    const std::vector<std::string> stop =
        random.below(4) == 0 ? std::vector<std::string>{"one", "\"", "her"} : std::vector<std::string>();
    const std::vector<TokenId> cut = cut_anew(said, random);
    ASSERT_EQ(tiny().decode(cut), tiny().decode(said));

    const Message message = whole_message(said, with_tools, stop);
    ASSERT_EQ(streamed_message(said, with_tools, stop), message) << n << ": " << tiny().decode(said);
    ASSERT_EQ(whole_message(cut, with_tools, stop), message) << n << ": " << tiny().decode(said);
    ASSERT_EQ(streamed_message(cut, with_tools, stop), message) << n << ": " << tiny().decode(said);
    ASSERT_NO_FATAL_FAILURE(expect_no_control_token(message, said));
    num_cut += cut != said;
    num_calls += message.contains("tool_calls");
    num_reasonings += message.contains("reasoning");
    num_contents += message["content"].is_string() && message["content"] != "";
  }
  // Without enough streams of each kind, the comparison would test too little.
  EXPECT_GT(num_cut, kNumSplits / 2);
  EXPECT_GT(num_calls, kNumSplits / 20);
  EXPECT_GT(num_contents, kNumSplits / 4);
  EXPECT_GT(num_reasonings, kNumSplits / 20);
}

}  // namespace
}  // namespace nibble::server
