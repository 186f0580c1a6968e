#include "core/text/json_text.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/text/json.h"

namespace nibble {
namespace {

using OrderedJson = nlohmann::ordered_json;

const OrderedJson kValue{{"b", {1, 2}}, {"a", "\u00fc"}};

TEST(JsonText, IsOneLineUnlessIndented) {
  EXPECT_EQ(json_text(kValue), "{\"b\":[1,2],\"a\":\"\u00fc\"}");
  EXPECT_EQ(json_text(kValue, JsonForm::kIndented),
            "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": \"\u00fc\"\n}");
  EXPECT_EQ(json_text(nlohmann::json(kValue)), "{\"a\":\"\u00fc\",\"b\":[1,2]}") << "members in sorted order";
}

TEST(JsonText, EscapesCharactersOutsideAscii) {
  EXPECT_EQ(json_text(kValue, JsonForm::kAsciiLine), "{\"b\":[1,2],\"a\":\"\\u00fc\"}");
}

TEST(JsonText, ReplacesBytesThatAreNotUtf8) {
  const OrderedJson cut{{"\xff", "x\xc3"}};
  EXPECT_THROW(cut.dump(), OrderedJson::type_error);
  EXPECT_EQ(json_text(cut), "{\"\uFFFD\":\"x\uFFFD\"}");
  EXPECT_EQ(json_text(cut, JsonForm::kAsciiLine), "{\"\\ufffd\":\"x\\ufffd\"}");
  EXPECT_EQ(json_text(cut, JsonForm::kIndented), "{\n  \"\uFFFD\": \"x\uFFFD\"\n}");
}

TEST(JsonText, WritesNumbersThatJsonDoesNotHaveAsNull) {
  EXPECT_EQ(json_text(OrderedJson{std::numeric_limits<double>::infinity(), 0.5}), "[null,0.5]");
}

}  // namespace
}  // namespace nibble
