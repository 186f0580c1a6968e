#include "grammar/languages/schema/json_schema.h"
#include "core/text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/grammar/vocabularies.h"

namespace nibble::grammar {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct Case {
  const char* schema;
  std::vector<const char*> valid, invalid;  // texts
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.schema; }

class JsonSchemaKeyword : public testing::TestWithParam<Case> {};

TEST_P(JsonSchemaKeyword, HoldsAtItsBoundary) {
  const Compiled compiled = compile_json_schema(Json::parse(GetParam().schema));
  for (const char* text : GetParam().valid) EXPECT_TRUE(accepts(compiled, text)) << text;
  for (const char* text : GetParam().invalid) EXPECT_FALSE(accepts(compiled, text)) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Types, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({})",
         {"1", "\"a\"", "null", "{}", "[1,{\"a\":[]}]", "-0.5e+10"},
         {"", " 1", "1 ", "nul", "01", "1.", ".5", "+1", "'a'", "{\"a\"}", "[1,]"}},
        {R"({"type":"integer"})", {"0", "-1", "120"}, {"1.0", "1e3", "-0", "\"1\""}},
        {R"({"type":"number"})", {"0", "-1.50", "2E5", "1e-7"}, {"1e", "1e1000", "NaN", "Infinity"}},
        {R"({"type":"string"})",
         {R"("")", R"("a\"\\\/\b\u00e9\ud83d\ude00é")"},
         {R"("\ud83d")", R"("\x")", R"("a)", "\"\n\"", "\"\xc3\""}},
        {R"({"type":["boolean","null"]})", {"true", "false", "null"}, {"True", "0"}},
        {R"({"type":"array"})",
         {"[]", "[1]", "[1, 2]", "[\n  1,\n  2\n]"},
         {"[ 1]", "[1 ]", "[1,  2]", "[,]", "{}"}},
        {R"({"type":"object"})",
         {"{}", "{\"a\":1}", "{\"a\": 1, \"b\": {}}", "{\n\t\"a\": 1\n}"},
         {"{ }", "{\"a\" :1}", "[]"}},
        {R"(true)", {"1"}, {""}}}));

INSTANTIATE_TEST_SUITE_P(
    Values, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"enum":["red","re\"d",1,null,[1,{"a":2}]]})",
         {"\"red\"", R"("re\"d")", "1", "null", "[1,{\"a\":2}]"},
         {"\"re\"", "2", "[1,{\"a\":3}]"}},
        {R"({"enum":[1,"a",true],"type":["string","boolean"]})", {"\"a\"", "true"}, {"1"}},
        {R"({"enum":[1,5,9],"minimum":4})", {"5", "9"}, {"1"}},
        {R"({"const":{"a":[1,2]}})", {"{\"a\":[1,2]}"}, {"{\"a\":[1]}", "{}"}},
        {R"({"enum":["a","b","c"],"not":{"const":"b"}})", {"\"a\"", "\"c\""}, {"\"b\""}}}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"type":"integer","minimum":-12,"maximum":107})",
         {"-12", "-1", "0", "9", "99", "107"},
         {"-13", "108", "-20", "200", "1000"}},
        {R"({"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":11})", {"10"}, {"9", "11"}},
        {R"({"type":"integer","minimum":0.5,"maximum":2.5})", {"1", "2"}, {"0", "3"}},
        {R"({"type":"number","minimum":1.25,"exclusiveMaximum":10})",
         {"1.25", "1.3", "9.999", "1.250", "2"},
         {"1.2", "1.249", "10", "10.0", "-2", "1e0"}},
        {R"({"type":"number","maximum":-0.5})",
         {"-0.5", "-0.50", "-1", "-10.25"},
         {"-0.4", "0", "-0.0", "0.5"}},
        {R"({"type":"number","exclusiveMinimum":0,"maximum":1e-2})",
         {"0.01", "0.001", "0.00999"},
         {"0", "0.0", "0.011", "0.02"}},
        {R"({"type":"number","minimum":5,"exclusiveMinimum":true})", {"5.1"}, {"5"}},
        {R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "49"}, {"1", "-0", "48"}},
        {R"({"type":"number","multipleOf":0.25})", {"0.25", "-1.5", "3", "0.50"}, {"0.3", "0.26", "0.255"}},
        {R"({"type":"integer","multipleOf":6,"minimum":10,"maximum":20})", {"12", "18"}, {"6", "10", "24"}},
        {R"({"type":"integer","not":{"multipleOf":2}})", {"1", "-3", "11"}, {"0", "2", "-4"}},
        {R"({"type":"number","not":{"enum":[1,2.5]}})", {"2", "1.5", "0"}, {"1", "2.5", "1.0", "2.50"}},
        {R"({"type":"number","not":{"type":"integer"}})", {"0.5", "-1.25"}, {"1", "1.0", "2.50"}}}));

INSTANTIATE_TEST_SUITE_P(
    Strings, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"type":"string","minLength":2,"maxLength":3})",
         {R"("ab")", R"("世界é")", R"("\n\"")", R"("\u0000ab")"},
         {R"("a")", R"("abcd")", R"("\"")"}},
        {R"({"type":"string","pattern":"^[a-c]+$"})", {R"("abc")"}, {R"("")", R"("abd")", R"("\u0061")"}},
        {R"({"type":"string","pattern":"b"})", {R"("b")", R"("a b c")", R"("\"b")"}, {R"("ac")", R"("")"}},
        {R"({"type":"string","pattern":"^\\s\"$"})", {R"("\t\"")", R"(" \"")"}, {R"("\"")"}},
        {R"({"type":"string","pattern":"^(ab)*$","minLength":3,"maxLength":6})",
         {R"("abab")", R"("ababab")"},
         {R"("ab")", R"("aba")", R"("abababab")"}},
        {R"({"type":"string","format":"date","pattern":"^2026"})",
         {R"("2026-02-28")"},
         {R"("2026-02-29")", R"("2025-01-01")"}},
        {R"({"type":"string","format":"date-time"})",
         {R"("2024-02-29T23:59:59.5+01:00")"},
         {R"("2023-02-29T00:00:00Z")", R"("2024-01-01T24:00:00Z")"}},
        {R"({"type":"string","format":"email"})",
         {R"("a.b@example.com")", R"("a@b")"},
         {R"("a@")", R"(".a@example.com")", R"("a@-b.com")"}},
        {R"({"type":"string","format":"ipv4"})",
         {R"("255.0.10.1")"},
         {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"}},
        {R"({"type":"string","format":"ipv6"})",
         {R"("::")", R"("2001:db8::1")", R"("1:2:3:4:5:6:7:8")", R"("::ffff:1.2.3.4")"},
         {R"("1::2::3")", R"("1:2:3:4:5:6:7:8:9")", R"(":1")", R"("12345::")"}},
        {R"({"type":"string","format":"uuid"})",
         {R"("123e4567-e89b-12d3-a456-426614174000")"},
         {R"("123e4567e89b12d3a456426614174000")"}},
        {R"({"type":"string","format":"uri"})",
         {R"("https://a.example/b?c=d#e")", R"("mailto:a@b")"},
         {R"("//a.example/b")", R"("a b:c")"}},
        {R"({"type":"string","not":{"pattern":"^x"}})", {R"("ax")", R"("")"}, {R"("x")", R"("xa")"}},
        {R"({"type":"string","not":{"enum":["a","abc"]}})",
         {R"("ab")", R"("")", R"("abcd")"},
         {R"("a")", R"("abc")"}}}));

INSTANTIATE_TEST_SUITE_P(
    Arrays, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
         {"[1]", "[1,2,3]"},
         {"[]", "[1,2,3,4]", "[\"a\"]"}},
        {R"({"type":"array","prefixItems":[{"type":"string"},{"type":"null"}],"items":{"type":"integer"}})",
         {"[]", "[\"a\"]", "[\"a\",null,1,2]"},
         {"[1]", "[\"a\",1]", "[\"a\",null,\"b\"]"}},
        {R"({"type":"array","prefixItems":[{"type":"string"}],"items":false})",
         {"[]", "[\"a\"]"},
         {"[\"a\",1]"}},
        {R"({"type":"array","items":[{"type":"string"}],"additionalItems":{"type":"null"}})",
         {"[\"a\",null]"},
         {"[\"a\",1]"}},
        {R"({"type":"array","maxItems":1,"uniqueItems":true})", {"[]", "[1]"}, {"[1,1]"}},
        {R"({"type":"array","allOf":[{"items":{"minimum":3}},{"prefixItems":[{"type":"integer"}],"items":{"type":"string"}}]})",
         {"[3,\"a\"]"},
         {"[2]", "[3,4]"}}}));

INSTANTIATE_TEST_SUITE_P(
    DifferentItems, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"type":"array","items":{"enum":["a","b","ab"]},"uniqueItems":true})",
         {"[]", R"(["b"])", R"(["ab", "a"])", R"(["b","ab","a"])", "[\n  \"a\",\n  \"ab\"\n]"},
         {R"(["a","a"])", R"(["ab","b","ab"])", R"(["c"])", R"(["a","b","ab","a"])", R"(["a",])"}},
        {R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":2,"maxItems":2})",
         {R"(["c","a"])"},
         {"[]", R"(["a"])", R"(["a","b","c"])", R"(["a","a"])"}},
        {R"({"type":"array","items":{"type":["boolean","null"]},"uniqueItems":true})",
         {"[true,null,false]"},
         {"[true,true]", "[null,true,null]"}},
        {R"({"type":"array","items":{"type":"integer","minimum":9,"exclusiveMaximum":13,"not":{"const":11}},"uniqueItems":true})",
         {"[12,10,9]"},
         {"[9,9]", "[11]", "[13]", "[1]"}},
        {R"({"type":"array","items":{"anyOf":[{"const":1},{"enum":[1.0,"1",true]},{"$ref":"#/$defs/x"}]},"uniqueItems":true,"$defs":{"x":{"const":{"a":[1]}}}})",
         {R"([1,"1",true,{"a":[1]}])"},
         {R"([1,1])", R"([{"a":[1]},{"a":[1]}])"}},
        // Unique items that are lists of unique items.
        {R"({"type":"array","items":{"type":"array","items":{"enum":["x","y"]},"uniqueItems":true,"maxItems":2},"uniqueItems":true})",
         {R"([[],["x","y"],["y","x"]])"},
         {R"([["x"],["x"]])", R"([["x","x"]])"}},
        {R"({"type":"array","prefixItems":[{"enum":["a","b"]},{"enum":["a",1]}],"items":false,"uniqueItems":true})",
         {"[]", R"(["a",1])", R"(["b","a"])"},
         {R"(["a","a"])", R"([1])"}},
        {R"({"type":"array","prefixItems":[{"type":"string"}],"items":false,"uniqueItems":true})",
         {R"(["any"])"},
         {R"(["a","a"])"}},
        {R"({"type":"array","items":{"enum":[1,2,3]},"uniqueItems":true,"contains":{"const":2},"maxItems":3})",
         {"[2]", "[1,2,3]"},
         {"[1]", "[2,2]"}}}));

INSTANTIATE_TEST_SUITE_P(
    NeededItems, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"type":"array","contains":{"type":"null"}})",
         {"[null]", R"([1,null,"a"])", "[\n  1, null\n]", "[null,null]"},
         {"[]", "[1]", "[[null]]"}},
        {R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":5},"minItems":2,"maxItems":3})",
         {"[1,5]", "[5,1,2]", "[1,2,7]"},
         {"[5]", "[1,2,3]", "[1,2,3,5]", R"([5,"a"])"}},
        {R"({"type":"array","prefixItems":[{"type":"string"},{"type":"null"}],"items":{"type":"integer"},"contains":{"type":"null"}})",
         {R"(["a",null])", R"(["a",null,1])"},
         {R"(["a"])", R"([null])", "[]"}},
        {R"({"type":"array","prefixItems":[{"type":"string"},false],"contains":{"maxLength":1}})",
         {R"(["a"])"},
         {R"(["ab"])", R"(["a",1])"}},
        {R"({"enum":[[1],[1,"a"],5],"contains":{"type":"string"}})", {R"([1,"a"])", "5"}, {"[1]"}}}));

INSTANTIATE_TEST_SUITE_P(
    Objects, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{}},"required":["b"],"additionalProperties":false})",
         {R"({"b":""})", R"({"a":1,"b":"x"})", R"({"a":1,"b":"x","c":[]})", R"({"b":"","c":1})"},
         {R"({})", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":"","d":1})", R"({"a":1,"a":1,"b":""})"}},
        {R"({"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}})",
         {R"({"x":1})", R"({"a":"","aa":2})"},
         {R"({"x":"1"})", R"({"x":1,"a":"b"})"}},
        {R"({"type":"object","patternProperties":{"^s_":{"type":"string"},"_n$":{"maxLength":2}},"additionalProperties":{"type":"null"}})",
         {R"({"s_x":"abc"})", R"({"s_n":"ab"})", R"({"x_n":5})", R"({"x":null})"},
         {R"({"s_x":1})", R"({"s_n":"abc"})", R"({"x":1})"}},
        {R"({"type":"object","propertyNames":{"pattern":"^[a-z]{2}$"}})",
         {R"({"ab":1})"},
         {R"({"a":1})", R"({"AB":1})"}},
        {R"({"type":"object","propertyNames":{"maxLength":2},"properties":{"long":{},"ok":{}}})",
         {R"({"ok":1})"},
         {R"({"long":1})"}},
        {R"({"type":"object","minProperties":1,"maxProperties":2})",
         {R"({"a":1})", R"({"a":1,"b":2})"},
         {R"({})", R"({"a":1,"b":2,"c":3})"}},
        {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":2,"additionalProperties":false})",
         {R"({"a":1,"b":1})", R"({"b":1,"c":1})"},
         {R"({"c":1})", R"({"b":1})"}},
        {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"required":["c"],"maxProperties":2})",
         {R"({"a":1,"c":1})", R"({"c":1,"d":1})"},
         {R"({"a":1,"b":1})", R"({"a":1,"b":1,"c":1})"}},
        {R"({"type":"object","required":["zz"]})",
         {R"({"zz":1})", R"({"zz":1,"y":2})"},
         {R"({})", R"({"y":1})"}},
        {R"({"type":"object","properties":{"a":{"$ref":"#"}},"additionalProperties":false})",
         {R"({"a":{"a":{}}})"},
         {R"({"a":1})"}},
        {R"({"type":"object","properties":{"a":false,"b":{}}})", {R"({"b":1})"}, {R"({"a":1})"}},
        {R"({"type":"object","properties":{"a\"b\\\n":{"type":"null"}},"additionalProperties":false})",
         {R"({"a\"b\\\n":null})"},
         {R"({"a":null})"}}}));

INSTANTIATE_TEST_SUITE_P(
    Dependencies, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"properties":{"card":{},"address":{}},"dependentRequired":{"card":["address","name"]}})",
         {R"({})", R"({"address":1})", R"({"card":1,"address":2,"name":3})", "[1]", "null"},
         {R"({"card":1})", R"({"card":1,"address":2})"}},
        {R"({"type":"object","properties":{"a":{},"b":{}},"required":["a"],"dependentRequired":{"a":["b"],"b":["a"]}})",
         {R"({"a":1,"b":2})"},
         {R"({"a":1})", R"({"b":1})", R"({})"}},
        {R"({"type":"object","properties":{"n":{"type":"integer"}},"dependentSchemas":{"n":{"properties":{"n":{"minimum":5},"m":false}}}})",
         {R"({"m":1})", R"({"n":5})", R"({"n":7,"other":1})"},
         {R"({"n":4})", R"({"n":5,"m":1})"}},
        {R"({"type":"object","dependentSchemas":{"gone":false,"x":true}})",
         {R"({"x":1})"},
         {R"({"gone":1})", R"({"x":1,"gone":1})"}},
        {R"({"type":"object","properties":{"a":{},"b":{}},"dependencies":{"a":["b"],"b":{"maxProperties":2}},"additionalProperties":true})",
         {R"({"a":1,"b":2})", R"({"c":1,"d":2,"e":3})"},
         {R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
        {R"({"enum":[{"a":1},{"a":1,"b":2},5],"dependentRequired":{"a":["b"]}})",
         {R"({"a":1,"b":2})", "5"},
         {R"({"a":1})"}}}));

INSTANTIATE_TEST_SUITE_P(
    Unevaluated, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"type":"object","properties":{"a":{}},"allOf":[{"$ref":"#/$defs/more"}],"unevaluatedProperties":false,"$defs":{"more":{"properties":{"b":{}},"patternProperties":{"^x_":{}}}}})",
         {R"({"a":1,"b":2,"x_y":3})", R"({})"},
         {R"({"c":1})", R"({"a":1,"xy":2})"}},
        {R"({"type":"object","properties":{"a":{}},"unevaluatedProperties":{"type":"integer"}})",
         {R"({"a":"x","b":2})"},
         {R"({"b":"x"})"}},
        {R"({"type":"object","required":["b"],"allOf":[{"additionalProperties":{"type":"integer"}}],"unevaluatedProperties":false})",
         {R"({"b":2,"c":3})"},
         {R"({"b":"x"})"}},
        {R"({"type":"object","properties":{"a":{}},"allOf":[{"properties":{"b":{}},"unevaluatedProperties":false}]})",
         {R"({"b":1})"},
         {R"({"a":1})", R"({"c":1})"}},
        {R"({"type":"object","anyOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}],"unevaluatedProperties":true})",
         {R"({"c":1})"},
         {R"([])"}},
        {R"({"type":"array","prefixItems":[{"type":"string"}],"allOf":[{"prefixItems":[{},{"type":"null"}]}],"unevaluatedItems":{"type":"integer"}})",
         {R"(["a",null,1,2])", R"([])"},
         {R"([1])", R"(["a",1])", R"(["a",null,"b"])"}},
        {R"({"type":"array","allOf":[{"items":{"type":"integer"}}],"unevaluatedItems":false})",
         {R"([1,2])"},
         {R"(["a"])"}}}));

INSTANTIATE_TEST_SUITE_P(
    Combinations, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"anyOf":[{"type":"string","maxLength":1},{"type":"integer","minimum":5}]})",
         {"\"a\"", "5"},
         {"\"ab\"", "4"}},
        {R"({"type":"object","properties":{"a":{"type":"integer"}},"anyOf":[{"required":["a"]},{"required":["b"]}],"additionalProperties":true})",
         {R"({"a":1})", R"({"b":1})"},
         {R"({})", R"({"a":"x"})"}},
        {R"({"allOf":[{"properties":{"a":{"type":"integer"}}},{"properties":{"a":{"minimum":3}},"required":["a"]}],"type":"object"})",
         {R"({"a":3})"},
         {R"({"a":2})", R"({})"}},
        {R"({"allOf":[{"properties":{"a":{}},"additionalProperties":{"type":"integer"}},{"properties":{"b":{"minimum":2}}}],"type":"object"})",
         {R"({"a":"x","b":2})", R"({"c":1})"},
         {R"({"b":"x"})", R"({"b":1})", R"({"c":"x"})"}},
        {R"({"oneOf":[{"type":"integer"},{"type":"number","minimum":2}]})", {"1", "2.5"}, {"3", "1.5"}},
        {R"({"oneOf":[{"properties":{"kind":{"const":"a"},"x":{}},"required":["kind","x"]},{"properties":{"kind":{"const":"b"}},"required":["kind"]}],"type":"object"})",
         {R"({"kind":"a","x":1})", R"({"kind":"b"})"},
         {R"({"kind":"a"})", R"({"kind":"c"})"}},
        {R"({"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]})",
         {R"({"a":1})", R"({"b":1})"},
         {R"({})", R"({"a":1,"b":1})"}},
        {R"({"not":{"type":["string","object","array"]}})", {"1", "null", "true"}, {"\"a\"", "{}", "[]"}},
        {R"({"type":"object","properties":{"kind":{"enum":["x","y"]},"n":{"type":"integer"}},"required":["kind"],"if":{"properties":{"kind":{"const":"x"}}},"then":{"required":["n"]},"else":{"properties":{"n":false}}})",
         {R"({"kind":"x","n":1})", R"({"kind":"y"})"},
         {R"({"kind":"x"})", R"({"kind":"y","n":1})"}},
        {R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"],"additionalProperties":false}}})",
         {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
         {R"({"v":1})", R"({"v":1,"next":1})"}},
        {R"({"$ref":"#/definitions/a~1b%25","definitions":{"a/b%":{"type":"null"}}})", {"null"}, {"1"}},
        {R"({"$ref":"#here","$defs":{"x":{"$anchor":"here","type":"boolean"}}})", {"true"}, {"1"}}}));

INSTANTIATE_TEST_SUITE_P(
    Failures, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"oneOf":[{"type":"array","items":{"type":"string"}},{"type":"array","items":{"type":"number"}}]})",
         {R"(["a"])", "[1,2]"},
         {"[]", R"(["a",1])", R"([1,"a"])"}},
        {R"({"oneOf":[{"type":"array","items":{"type":["string","integer"]}},{"type":"array","items":{"type":"string"}}]})",
         {"[1]", R"(["a",1,"b"])"},
         {"[]", R"(["a"])", "[null]"}},
        {R"({"type":"array","not":{"items":{"type":"string"}}})",
         {"[1]", R"(["a",null,"b"])"},
         {"[]", R"(["a"])"}},
        {R"({"type":"array","not":{"prefixItems":[{"type":"string"},{"type":"null"}]}})",
         {"[1]", R"(["a",1])"},
         {"[]", R"(["a"])", R"(["a",null,1])"}},
        {R"({"type":"array","items":[{"type":"string"}],"not":{"items":[{}],"additionalItems":{"type":"integer"}}})",
         {R"(["a",1,"b"])"},
         {R"(["a"])", R"(["a",1])"}},
        {R"({"type":"array","not":{"contains":{"type":"string"}}})",
         {"[]", "[1,null]"},
         {R"(["a"])", R"([1,"a"])"}},
        {R"({"not":{"contains":{"type":"string"}}})", {}, {"1", R"(["a"])"}},
        // Each of two closed objects declares a member that the other does not declare.
        {R"({"type":"object","oneOf":[{"properties":{"a":{"type":"integer"},"b":{}},"additionalProperties":false},{"properties":{"a":{"type":"integer"},"c":{}},"additionalProperties":false}]})",
         {R"({"b":1})", R"({"a":1,"c":1})"},
         {R"({})", R"({"a":1})", R"({"b":1,"c":1})"}},
        {R"({"type":"object","properties":{"a":{"type":"integer"}},"not":{"additionalProperties":{"type":"integer"}},"required":["b"]})",
         {R"({"b":"x"})", R"({"a":1,"b":null})"},
         {R"({"b":1})", R"({"a":1})"}},
        {R"({"type":"object","properties":{"x_a":{},"y":{}},"not":{"patternProperties":{"^x_":{"type":"string"}}},"additionalProperties":false})",
         {R"({"x_a":1})"},
         {R"({"x_a":""})", R"({"y":1})"}},
        {R"({"type":"object","properties":{"ab":{},"b":{}},"not":{"propertyNames":{"maxLength":1}},"additionalProperties":false})",
         {R"({"ab":1})", R"({"ab":1,"b":1})"},
         {R"({})", R"({"b":1})"}},
        {R"({"type":"object","properties":{"a":{},"b":{}},"not":{"dependentRequired":{"a":["b"]}}})",
         {R"({"a":1})", R"({"a":1,"c":1})"},
         {R"({})", R"({"a":1,"b":1})"}},
        {R"({"type":"object","properties":{"a":{},"b":{}},"not":{"dependentSchemas":{"a":{"properties":{"b":{"type":"string"}}}}}})",
         {R"({"a":1,"b":1})"},
         {R"({"a":1})", R"({"a":1,"b":""})", R"({"b":1})"}},
        {R"({"type":"integer","not":{"oneOf":[{"minimum":5},{"maximum":9}]}})", {"5", "9"}, {"4", "10"}},
        {R"({"type":["array","object"],"not":{"enum":[[],{}]}})", {"[1]", R"({"a":1})"}, {"[]", "{}"}},
        {R"({"type":"array","items":{"type":"integer"},"not":{"const":[1]}})", {"[]", "[1,1]"}, {"[1]"}},
        {R"({"type":"array","if":{"items":{"type":"integer"}},"then":{"maxItems":1},"else":{"minItems":2}})",
         {"[]", "[1]", R"(["a",1])"},
         {"[1,2]", R"(["a"])"}}}));

// Drafts 4 to 7 ignore keywords next to a $ref; later drafts obey them.
INSTANTIATE_TEST_SUITE_P(
    BesideARef, JsonSchemaKeyword,
    testing::ValuesIn(std::vector<Case>{
        {R"({"properties":{"a":{"$ref":"#/$defs/x","maxLength":1,"contains":{}}},"$defs":{"x":{"type":"string"}},"$schema":"http://json-schema.org/draft-07/schema#"})",
         {R"({"a":"xy"})"},
         {R"({"a":1})"}},
        {R"({"items":{"$ref":"#/definitions/x","type":"null","not":{}},"definitions":{"x":{"type":"integer"}},"$schema":"http://json-schema.org/draft-04/schema#"})",
         {"[1]"},
         {"[null]"}},
        {R"({"oneOf":[{"$ref":"#/definitions/x","type":"null"},{"type":"string"}],"definitions":{"x":{"maxLength":1}},"$schema":"http://json-schema.org/draft-06/schema#"})",
         {"1", "\"ab\""},
         {"\"a\""}},
        {R"({"enum":["a","ab"],"allOf":[{"$ref":"#/definitions/x","const":"b"}],"definitions":{"x":{"maxLength":1}},"$schema":"http://json-schema.org/draft-07/schema#"})",
         {"\"a\""},
         {"\"ab\""}},
        {R"({"$ref":"#/$defs/x","maxLength":1,"$defs":{"x":{"type":"string"}},"$schema":"https://json-schema.org/draft/2019-09/schema"})",
         {"\"a\""},
         {"\"ab\""}}}));

TEST(JsonSchema, MembersComeInTheSchemasOrder) {
  const Compiled compiled = compile_json_schema(
      Json::parse(R"({"type":"object","properties":{"z":{},"a":{}},"required":["a","z"]})"));
  EXPECT_TRUE(accepts(compiled, R"({"z":1,"a":2,"other":3})"));
  EXPECT_FALSE(accepts(compiled, R"({"a":2,"z":1})"));
}

// The order must not follow the addresses of the schemas in memory. `schema` is on the stack, at a higher
// address than the schemas that it holds, which are on the heap. Its member "z" must still come first.
TEST(JsonSchema, MembersOfReferencedSchemasComeAfterItsOwn) {
  const Json schema = Json::parse(
      R"({"properties":{"z":{}},"allOf":[{"properties":{"m":{}}},{"$ref":"#/$defs/base"}],"$defs":{"base":{"type":"object","properties":{"a":{}}}}})");
  const Compiled compiled = compile_json_schema(schema, {.is_strict = true});
  EXPECT_TRUE(accepts(compiled, R"({"z":1,"m":2,"a":3})"));
  EXPECT_FALSE(accepts(compiled, R"({"a":3,"m":2,"z":1})"));
}

TEST(JsonSchema, StrictModeClosesObjectsThatDeclareMembers) {
  const Json schema = Json::parse(R"({"type":"object","properties":{"a":{},"b":{"type":"object"}}})");
  EXPECT_TRUE(accepts(compile_json_schema(schema), R"({"a":1,"c":2})"));
  const Compiled strict = compile_json_schema(schema, {.is_strict = true});
  EXPECT_FALSE(accepts(strict, R"({"a":1,"c":2})"));
  EXPECT_TRUE(accepts(strict, R"({"b":{"any":1}})")) << "one that declares none stays open";
}

TEST(JsonSchema, BlanksAreLimited) {
  const Compiled any = compile_json_object();
  const std::string blanks(20, ' ');
  EXPECT_TRUE(accepts(any, "{\n" + blanks + "\"a\":1\n}"));
  EXPECT_FALSE(accepts(any, "{\n" + blanks + " \"a\":1\n}"));
  EXPECT_FALSE(accepts(any, "{\n\n\"a\":1}"));
  EXPECT_FALSE(accepts(any, "{\"a\":1}\n"));
}

std::string error(const char* schema) {
  return error_of([&] { compile_json_schema(Json::parse(schema)); });
}

TEST(JsonSchema, WhatIsNotEnforcedIsRefusedByKeywordAndPlace) {
  EXPECT_THAT(error(R"({"type":"object","properties":{"a/b":{"$dynamicRef":"#"}}})"),
              AllOf(HasSubstr("'$dynamicRef'"), HasSubstr("#/properties/a~1b")));
  EXPECT_THAT(
      error(R"({"const":{"a":[1]},"properties":{"a":{"contains":{"type":"string"},"maxContains":2}}})"),
      AllOf(HasSubstr("'contains'"), HasSubstr("#/properties/a")));
  EXPECT_THAT(error(R"({"items":{"contains":{},"minContains":2}})"),
              AllOf(HasSubstr("'contains'"), HasSubstr("#/items")));
  EXPECT_THAT(error(R"({"unevaluatedProperties":false,"allOf":[{"anyOf":[{"required":["a"]},{}]}]})"),
              AllOf(HasSubstr("'unevaluatedProperties' at #:"), HasSubstr("next to 'anyOf'")));
  EXPECT_THAT(error(R"({"unevaluatedItems":false,"if":{"maxItems":3},"then":{"items":{}}})"),
              AllOf(HasSubstr("'unevaluatedItems' at #:"), HasSubstr("next to 'if'")));
  EXPECT_THAT(error(R"({"enum":[{"a":1}],"unevaluatedProperties":false})"),
              AllOf(HasSubstr("'unevaluatedProperties'"), HasSubstr("in an enum or const")));
  EXPECT_THAT(error(R"({"properties":{"a":{"not":{"uniqueItems":true}}}})"),
              AllOf(HasSubstr("'uniqueItems' at #/properties/a/not"), HasSubstr("negating this keyword")));
  EXPECT_THAT(error(R"({"items":{"uniqueItems":true}})"),
              AllOf(HasSubstr("'uniqueItems'"), HasSubstr("#/items")));
  EXPECT_THAT(error(R"({"$ref":"https://example.com/other.json"})"),
              AllOf(HasSubstr("'$ref'"), HasSubstr("another document")));
  EXPECT_THAT(error(R"({"$ref":"#/$defs/missing"})"), HasSubstr("refers to nothing"));
  EXPECT_THAT(
      error(
          R"({"items":{"type":"array","items":{"type":"integer","minimum":0,"maximum":40},"uniqueItems":true}})"),
      AllOf(HasSubstr("'uniqueItems' at #/items"), HasSubstr("at most 32 values")));
  EXPECT_THAT(error(R"({"type":"string","pattern":"(?=a)b"})"),
              AllOf(HasSubstr("'pattern' at #"), HasSubstr("lookaround")));
  EXPECT_THAT(error(R"({"type":"number","multipleOf":123456})"), HasSubstr("'multipleOf'"));
}

TEST(JsonSchema, ValidValuesThatAreLeftOutAreNamed) {
  const Compiled compiled = compile_json_schema(Json::parse(
      R"({"type":"object","properties":{"a":{}},"not":{"additionalProperties":false,"properties":{"b":{}},"uniqueItems":true}})"));
  EXPECT_THAT(
      compiled.warnings,
      ElementsAre("'additionalProperties' at #/not: where it is negated, some valid values are excluded"));
  EXPECT_TRUE(accepts(compiled, R"({"a":1})"));
  EXPECT_FALSE(accepts(compiled, R"({"b":1})"));
  EXPECT_FALSE(accepts(compiled, R"({"c":1})"));  // refused, although it is valid JSON for this schema
}

struct Dropped {
  const char* schema;
  std::vector<const char*> warnings;
  std::vector<const char*> valid, invalid;  // arguments
};

void PrintTo(const Dropped& test, std::ostream* out) { *out << test.schema; }

class JsonSchemaOfATool : public testing::TestWithParam<Dropped> {};

TEST_P(JsonSchemaOfATool, LosesOnlyWhatIsNotEnforcedAndSaysSo) {
  const Compiled compiled =
      compile_json_schema(Json::parse(GetParam().schema), {.drops_unenforceable = true});
  EXPECT_THAT(compiled.warnings, testing::UnorderedElementsAreArray(GetParam().warnings));
  for (const char* text : GetParam().valid) EXPECT_TRUE(accepts(compiled, text)) << text;
  for (const char* text : GetParam().invalid) EXPECT_FALSE(accepts(compiled, text)) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Keywords, JsonSchemaOfATool,
    testing::ValuesIn(std::vector<Dropped>{
        {R"({"type":"object","properties":{"t":{"type":"array","items":{"type":"string"},"uniqueItems":true},"n":{"type":"integer"}},"required":["n"],"additionalProperties":false})",
         {"'uniqueItems' at #/properties/t: not enforced"},
         {R"({"t":["a","a"],"n":1})", R"({"n":1})"},
         {R"({"t":[1],"n":1})", R"({"t":[]})", R"({"x":1,"n":1})"}},
        {R"({"type":"object","properties":{"a":{"contains":{"type":"string"},"minContains":2,"minItems":2},"b":{"pattern":"(?=x)y","maxLength":2}},"additionalProperties":false})",
         {"'contains' at #/properties/a: not enforced", "'pattern' at #/properties/b: not enforced"},
         {R"({"a":[1,2]})", R"({"b":"y"})"},
         {R"({"a":[1]})", R"({"b":"xyz"})"}},
        // If the pattern of a name is not enforced, neither is the rule for all other names.
        {R"({"type":"object","properties":{"n":{"type":"integer"}},"patternProperties":{"(?=x)y":{}},"additionalProperties":false})",
         {"'patternProperties' at #: not enforced", "'additionalProperties' at #: not enforced"},
         {R"({"n":1,"y":2})"},
         {R"({"n":"1"})"}},
        // Dropping an unsupported keyword inside `not` would forbid more, so the whole `not` is dropped.
        {R"({"type":"object","properties":{"a":{"type":"string","not":{"pattern":"(?=x)y","minLength":3}}}})",
         {"'pattern' at #/properties/a/not: not enforced"},
         {R"({"a":"abcd"})", R"({"a":"ab"})"},
         {R"({"a":1})"}},
        {R"({"type":"object","properties":{"a":{"$ref":"https://example.com/a.json","maxLength":1}}})",
         {"'$ref' at #/properties/a: not enforced"},
         {R"({"a":"x"})"},
         {R"({"a":"xy"})"}},
        {R"({"type":"object","properties":{"a":{"type":"text","minimum":"1"},"b":5},"required":["a"]})",
         {"the schema at #/properties/b: not enforced", "'type' at #/properties/a: not enforced",
          "'minimum' at #/properties/a: not enforced"},
         {R"({"a":1,"b":2})"},
         {R"({"b":1})"}}}));

INSTANTIATE_TEST_SUITE_P(
    Roots, JsonSchemaOfATool,
    testing::ValuesIn(std::vector<Dropped>{
        {R"({})", {}, {R"({})", R"({"a":1})"}, {"1", "[]", "null"}},
        {R"(true)", {}, {R"({})"}, {"1"}},
        {R"({"properties":{"a":{"type":"integer"}}})", {}, {R"({"a":1})"}, {"1", R"({"a":""})"}},
        {R"({"anyOf":[{"type":"string"},{"type":"object","required":["a"]}]})",
         {},
         {R"({"a":1})"},
         {"\"a\"", R"({})"}},
        {R"({"type":"array","properties":{"a":{"type":"integer"}}})",
         {"'type' at #: not enforced"},
         {R"({"a":1})"},
         {R"({"a":""})", "[]"}},
        {R"([])", {"the schema at #: not enforced"}, {R"({"a":1})"}, {"[]"}},
        {R"(false)", {"the schema at #: not enforced"}, {R"({"a":1})"}, {"1"}},
        {R"({"type":"object","properties":{"a":{"type":"string","enum":[]},"b":{"type":"integer"}},"required":["a","b"]})",
         {"everything except the type at #/properties/a: not enforced"},
         {R"({"a":"x","b":1})"},
         {R"({"a":1,"b":1})", R"({"a":"x","b":"y"})"}}}));

TEST(JsonSchema, OfAToolOnlyThePlaceThatTakesTooMuchWorkIsOpen) {
  Json schema = Json::parse(R"({"type":"object","properties":{"n":{"type":"integer"},"dear":{"allOf":[]}}})");
  for (int i = 0; i < 20; ++i)
    schema["properties"]["dear"]["allOf"].push_back(
        Json::parse(R"({"anyOf":[{"required":["a)" + std::to_string(i) + R"("]},{"minProperties":1}]})"));
  const Compiled compiled = compile_json_schema(schema, {.drops_unenforceable = true});
  EXPECT_THAT(compiled.warnings, ElementsAre("'allOf' at #/properties/dear: not enforced"));
  EXPECT_TRUE(accepts(compiled, R"({"n":1,"dear":{}})"));
  EXPECT_FALSE(accepts(compiled, R"({"n":""})"));
}

TEST(JsonSchema, AKeywordOfAnotherKindIsRefused) {
  EXPECT_THAT(error(R"({"type":"text"})"), AllOf(HasSubstr("'type' at #"), HasSubstr("must be one")));
  EXPECT_THAT(error(R"({"minLength":"3"})"), HasSubstr("non-negative integer"));
  EXPECT_THAT(error(R"({"maxItems":-1})"), HasSubstr("non-negative integer"));
  EXPECT_THAT(error(R"({"enum":"a"})"), HasSubstr("array"));
  EXPECT_THAT(error(R"({"properties":[]})"), HasSubstr("object"));
  EXPECT_THAT(error(R"({"required":[1]})"), HasSubstr("strings"));
  EXPECT_THAT(error(R"({"dependentRequired":{"a":[1]}})"),
              AllOf(HasSubstr("'dependentRequired'"), HasSubstr("strings")));
  EXPECT_THAT(error(R"({"dependentRequired":{"a":{}}})"), HasSubstr("array of strings"));
  EXPECT_THAT(error(R"({"dependentSchemas":{"a":["b"]}})"), HasSubstr("must be a schema"));
  EXPECT_THAT(error(R"({"anyOf":[1]})"), HasSubstr("object or a boolean"));
  EXPECT_THAT(error(R"([])"), HasSubstr("object or a boolean"));
}

TEST(JsonSchema, WhatNothingCanFulfilIsRefused) {
  for (const char* schema : {R"({"type":"integer","minimum":3,"maximum":2})",
                             R"({"type":"object","required":["a"],"properties":{"a":false}})",
                             R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
                             R"({"type":"string","pattern":"^a$","minLength":2})",
                             R"({"type":"array","items":false,"minItems":1})",
                             R"({"allOf":[{"type":"string"},{"type":"integer"}]})", R"(false)",
                             R"({"enum":[1,2],"type":"string"})",
                             R"({"type":"string","pattern":"^(ab)*$","minLength":3,"maxLength":3})"})
    EXPECT_THAT(error(schema), HasSubstr("no text satisfies the grammar or schema")) << schema;
}

TEST(JsonSchema, AnUnknownFormatIsAWarningOnce) {
  const Compiled compiled = compile_json_schema(Json::parse(
      R"({"type":"array","items":{"type":"string","format":"color"},"prefixItems":[{"format":"color"}]})"));
  EXPECT_THAT(compiled.warnings, ElementsAre("the format 'color' is unknown and not enforced"));
  EXPECT_TRUE(accepts(compiled, R"(["a","b"])"));
}

TEST(JsonSchema, AnnotationsAndUnknownWordsSayNothing) {
  EXPECT_TRUE(accepts(
      compile_json_schema(Json::parse(
          R"({"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://a.example/b","title":"T","description":"D","default":1,"examples":[1],"x-mine":{"type":"null"},"readOnly":true,"$comment":"c","then":false})")),
      "\"a\""));
}

}  // namespace
}  // namespace nibble::grammar
