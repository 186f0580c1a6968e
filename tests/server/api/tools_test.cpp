#include "server/api/tools.h"
#include "core/text/json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/anthropic_request.h"
#include "server/api/chat_request.h"
#include "server/api/ollama_request.h"
#include "server/api/response_request.h"
#include "tests/error_of.h"

namespace nibble::server {
namespace {

using testing::HasSubstr;

// The tools that an API reads from a request. ApiRow::offer sends the same `functions` through one API, each
// as JSON with the members "name", "description", "parameters" and "strict".
struct Offer {
  std::vector<OfferedTool> offered;
  std::vector<harmony::Tool> shown;
  std::string ignored;
};
struct ApiRow {
  const char* name;
  Offer (*offer)(const std::vector<std::string>& functions, const std::string& more);
};

std::string listed(const std::vector<std::string>& elements) {
  return fmt::format("[{}]", fmt::join(elements, ","));
}
template <typename Wrap>
std::string wrapped(const std::vector<std::string>& functions, Wrap wrap) {
  std::vector<std::string> tools;
  for (const std::string& function : functions) tools.push_back(wrap(function));
  return listed(tools);
}
std::string as_chat_tool(const std::string& function) {
  return fmt::format(R"({{"type":"function","function":{}}})", function);
}
Offer taken(ChatRequest request) {
  return {std::move(request.offered), std::move(request.chat.tools), request.params.ignored.text()};
}
constexpr const char* kHi{R"("messages":[{"role":"user","content":"hi"}])"};

Offer offer_chat(const std::vector<std::string>& functions, const std::string& more) {
  return taken(
      read_chat_request(fmt::format(R"({{{}{},"tools":{}}})", kHi, more, wrapped(functions, as_chat_tool))));
}
Offer offer_functions(const std::vector<std::string>& functions, const std::string& more) {
  return taken(read_chat_request(fmt::format(R"({{{}{},"functions":{}}})", kHi, more, listed(functions))));
}
Offer offer_responses(const std::vector<std::string>& functions, const std::string& more) {
  ResponseRequest request = read_response_request(fmt::format(
      R"({{"input":"hi"{},"tools":{}}})", more, wrapped(functions, [](const std::string& function) {
        return fmt::format(R"({{"type":"function",{})", function.substr(1));
      })));
  return {std::move(request.offered), std::move(request.chat.tools), request.params.ignored.text()};
}
Offer offer_messages(const std::vector<std::string>& functions, const std::string& more) {
  const std::string tools = wrapped(functions, [](std::string function) {
    if (const size_t at = function.find("parameters"); at != std::string::npos)
      function.replace(at, 10, "input_schema");
    return function;
  });
  return taken(
      read_anthropic_request(fmt::format(R"({{{}{},"tools":{},"max_tokens":9}})", kHi, more, tools), true)
          .chat);
}
Offer offer_ollama(const std::vector<std::string>& functions, const std::string& more) {
  return taken(
      read_ollama_chat(fmt::format(R"({{{}{},"tools":{}}})", kHi, more, wrapped(functions, as_chat_tool)))
          .chat);
}
constexpr ApiRow kApis[]{{"chat", &offer_chat},
                         {"functions", &offer_functions},
                         {"responses", &offer_responses},
                         {"messages", &offer_messages},
                         {"ollama", &offer_ollama}};

TEST(Tools, ASecondToolOfANameIsRefusedIfItDiffersAndElseNamed) {
  const std::string f =
      R"({"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"}}}})";
  for (const ApiRow& api : kApis) {
    const Offer twice = api.offer({f, R"({"name":"g"})", f}, "");
    EXPECT_EQ(twice.offered.size(), 2u) << api.name;
    EXPECT_EQ(twice.shown.size(), 2u) << api.name;
    EXPECT_THAT(twice.ignored, HasSubstr("tools.f (declared twice)")) << api.name;
    for (
        const char* other :
        {R"({"name":"f","description":"d"})",
         R"({"name":"f","description":"e","parameters":{"type":"object","properties":{"a":{"type":"string"}}}})",
         R"({"name":"f","strict":true,"description":"d","parameters":{"type":"object","properties":{"a":{"type":"string"}}}})"})
      EXPECT_THAT(error_of([&] {
                    api.offer({f, other}, "");
                  }),
                  HasSubstr("has the name 'f' of an earlier, different tool"))
          << api.name << other;
  }
}

TEST(Tools, ANameIsOneWordOfLettersDigitsAndThreeMarks) {
  for (const ApiRow& api : kApis) {
    for (const std::string& name : {std::string("a.b-c_D9"), std::string(128, 'x')})
      EXPECT_EQ(api.offer({fmt::format(R"({{"name":"{}"}})", name)}, "").offered.at(0).name, name)
          << api.name;
    for (const std::string& name : {std::string("f to=functions.g"), std::string(""), std::string(129, 'x'),
                                    std::string("f\\n"), std::string("größe"), std::string("f<|message|>")})
      EXPECT_THAT(error_of([&] { api.offer({fmt::format(R"({{"name":"{}"}})", name)}, ""); }),
                  HasSubstr(".name must be a name of 1 to 128 letters"))
          << api.name << name;
  }
}

TEST(Tools, AForbiddenCallLeavesTheToolsInThePrompt) {
  const std::pair<const ApiRow*, const char*> kNone[]{{&kApis[0], R"(,"tool_choice":"none")"},
                                                      {&kApis[1], R"(,"function_call":"none")"},
                                                      {&kApis[2], R"(,"tool_choice":"none")"},
                                                      {&kApis[3], R"(,"tool_choice":{"type":"none"})"}};
  for (const auto& [api, choice] : kNone) {
    const Offer offer = api->offer({R"({"name":"f"})"}, choice);
    EXPECT_EQ(offer.shown.size(), 1u) << api->name;
    ASSERT_EQ(offer.offered.size(), 1u) << api->name;
    EXPECT_FALSE(offer.offered[0].may_be_called) << api->name;
  }
}

TEST(Tools, EverySchemaIsKeptForTheGrammarAndSaysThatArgumentsAreAnObject) {
  const std::pair<const char*, const char*> kSchemas[]{
      {R"({"type":"object","properties":{},"additionalProperties":false})",
       R"({"type":"object","properties":{},"additionalProperties":false})"},
      {R"({"anyOf":[{"required":["a"]}]})", R"({"anyOf":[{"required":["a"]}],"type":"object"})"},
      {R"({"type":["object","null"],"minProperties":1})", R"({"type":"object","minProperties":1})"},
      {"false", "false"}};
  for (const ApiRow& api : kApis) {
    for (const auto& [given, kept] : kSchemas)
      EXPECT_EQ(
          api.offer({fmt::format(R"({{"name":"f","parameters":{}}})", given)}, "").offered.at(0).parameters,
          kept)
          << api.name;
    for (const char* any : {"true", "{}", "null"})
      EXPECT_EQ(
          api.offer({fmt::format(R"({{"name":"f","parameters":{}}})", any)}, "").offered.at(0).parameters,
          std::nullopt)
          << api.name;
    EXPECT_THAT(error_of([&] { api.offer({R"({"name":"f","parameters":"x"})"}, ""); }),
                HasSubstr("must be a JSON schema"));
  }
}

TEST(Tools, AToolThatASearchFoundIsOfferedOnceAndTheRequestsOwnWins) {
  const ResponseRequest request =
      read_response_request(R"({"tools":[{"type":"function","name":"f","description":"own"}],"input":[
      {"type":"tool_search_call","call_id":"1","arguments":{}},
      {"type":"tool_search_output","call_id":"1","tools":[{"type":"function","name":"g"},{"type":"namespace","name":"m","description":"d","tools":[{"name":"h"}]}]},
      {"type":"tool_search_call","call_id":"2","arguments":{}},
      {"type":"tool_search_output","call_id":"2","tools":[{"type":"function","name":"g"},{"type":"function","name":"f"}]}]})");
  ASSERT_EQ(request.chat.tools.size(), 2u);
  EXPECT_EQ(request.chat.tools[0].description, "own");
  EXPECT_EQ(request.chat.namespaces.at(0).description, "d");
  EXPECT_EQ(request.offered.size(), 3u);
  EXPECT_EQ(request.params.ignored.text(), "tools.f (declared before)");
}

}  // namespace
}  // namespace nibble::server
