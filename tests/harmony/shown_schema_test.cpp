#include "harmony/shown_schema.h"
#include "core/text/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harmony/typescript.h"

namespace nibble::harmony {
namespace {

// Returns the type of the tool's argument, or "()" if it is not shown.
std::string shown(std::string_view schema) {
  const auto rewritten = shown_schema(parse_json(schema, "schema"));
  return rewritten ? typescript_type(*rewritten) : "()";
}

std::string member(const std::string& schema) {
  const std::string type =
      shown(R"({"type": "object", "properties": {"k": )" + schema + R"(}, "required": ["k"]})");
  return type.substr(2, type.size() - 4);  // without "{\n" and "\n}"
}

TEST(ShownSchema, ATypeThatNamesItselfIsWrittenOutOnceAndNamedInside) {
  const std::string node = R"("Node": {"type": "object", "properties": {"name": {"type": "string"},
      "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}, "required": ["name", "kids"]})";
  const std::string type = "// Node\n{\nname: string,\nkids: Node[],\n}";
  EXPECT_EQ(shown(R"({"$ref": "#/$defs/Node", "$defs": {)" + node + "}}"), type);
  EXPECT_EQ(shown(R"({"allOf": [{"$ref": "#/$defs/Node"}], "$defs": {)" + node + "}}"), type);
  EXPECT_EQ(shown(R"({"type": "object", "description": "A tree.", "properties": {"next": {"$ref": "#"}}})"),
            "// Arguments: A tree.\n{\nnext?: Arguments,\n}");
  EXPECT_EQ(shown(R"({"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {)" +
                  node + "}}"),
            "{\n// Node\nroot?:     // Node\n{\n    name: string,\n    kids: Node[],\n    },\n}");
}

TEST(ShownSchema, AReferenceIsReplacedByWhatItNamesWithItsOwnDescription) {
  const char* kPlace{R"("$defs": {"Place": {"type": "object", "description": "a place", "properties":
      {"city": {"type": "string"}}, "required": ["city"]}, "Unit": {"enum": ["c", "f"]}})"};
  EXPECT_EQ(shown(fmt::format(R"({{"type": "object", "properties": {{"from": {{"$ref": "#/$defs/Place"}},
      "to": {{"$ref": "#/$defs/Place", "description": "where to"}},
      "unit": {{"allOf": [{{"$ref": "#/$defs/Unit"}}], "default": "c"}},
      "list": {{"type": "array", "items": {{"$ref": "#/$defs/Unit"}}}}}}, "required": ["to"], {}}})",
                              kPlace)),
            "{\n// a place\nfrom?:     // a place\n{\n    city: string,\n    },\n"
            "// where to\nto:     // where to\n{\n    city: string,\n    },\n"
            "unit?: \"c\" | \"f\", // default: c\nlist?: \"c\" | \"f\"[],\n}");
  EXPECT_EQ(member(R"({"$ref": "https://example.com/other"})"), "k: any,");
  EXPECT_EQ(shown(R"({"$ref": "#/nothing"})"), "any");
}

TEST(ShownSchema, UnionsAreShown) {
  EXPECT_EQ(
      shown(
          R"({"anyOf": [{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
                                {"type": "object", "properties": {"zip": {"type": "integer"}}}]})"),
      "\n | {\n   city: string,\n   }\n | {\n   zip?: number,\n   }");
  EXPECT_EQ(member(R"({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null})"),
            "k: string | null, // default: null");
  EXPECT_EQ(member(R"({"anyOf": [{"type": "integer"}, {"type": ["string", "null"]}]})"),
            "k: number | string | null,");
  EXPECT_EQ(member(R"({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})"),
            "k: string[] | null,");
  EXPECT_EQ(member(R"({"anyOf": [{"type": "null"}, {"enum": ["a"], "type": "string"}], "description": "d"})"),
            "// d\nk: \"a\" | null,");
  EXPECT_EQ(member(R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})"),
            "k:\n | string\n | string[]\n,");
}

TEST(ShownSchema, EachVariantHasThePropertiesOfTheWhole) {
  EXPECT_EQ(shown(R"({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"],
                      "oneOf": [{"properties": {"a": {"type": "number"}}}, {"properties": {"b": {"type": "number"}},
                                 "required": ["b"]}]})"),
            "\n | {\n   id: string,\n   a?: number,\n   }\n | {\n   id: string,\n   b: number,\n   }");
  EXPECT_EQ(shown(R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                      "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})"),
            "{\na?: string,\nb?: string,\n}");
}

TEST(ShownSchema, AllOfIsOneObject) {
  EXPECT_EQ(
      shown(R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                                {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}]})"),
      "{\na: number,\nb: number,\n}");
}

TEST(ShownSchema, TheKeysOfMapsAreShown) {
  EXPECT_EQ(shown(R"({"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 1})"),
            "{\n[key: string]: number,\n}");
  EXPECT_EQ(
      shown(
          R"({"type": "object", "patternProperties": {"^x[0-9]$": {"type": "integer"}}, "additionalProperties": false})"),
      "{\n[key: /^x[0-9]$/]: number,\n}");
  EXPECT_EQ(member(R"({"additionalProperties": {"type": "array", "items": {"type": "string"}}})"),
            "k: {\n    [key: string]: string[],\n    },");
}

TEST(ShownSchema, TypesThatTheKeywordsTellAreNamed) {
  EXPECT_EQ(
      shown(
          R"({"properties": {"a": {"const": "x"}, "b": {"enum": [1, null]}, "c": {"items": {"type": "string"}}}})"),
      "{\na?: \"x\",\nb?: 1 | null,\nc?: string[],\n}");
  EXPECT_EQ(shown(R"({"type": "object", "required": ["a"]})"), "{\na: any,\n}");
  EXPECT_EQ(member(R"({"type": ["object", "null"], "properties": {"a": {"type": "string"}}})"),
            "k: {\n    a?: string,\n    } | null,");
  EXPECT_EQ(member("false"), "k: never,");
}

TEST(ShownSchema, NoArgumentsAndAnyObjectAreNotShown) {
  for (const char* schema :
       {"true", "{}", R"({"type": "object"})", R"({"type": "object", "properties": {}})",
        R"({"properties": {}})", R"({"type": "object", "properties": {}, "additionalProperties": false})",
        R"({"type": ["object", "null"], "properties": {}})",
        R"({"$ref": "#/$defs/None", "$defs": {"None": {"type": "object"}}})"})
    EXPECT_EQ(shown(schema), "()") << schema;
}

// The official renderer shows these schemas completely (the first is from its own test), so shown_schema()
// returns them unchanged.
TEST(ShownSchema, WhatTheOfficialRendererShowsStaysAsItIs) {
  for (
      const char* schema :
      {R"({"type": "object", "description": "d", "properties": {"a": {"type": "string", "title": "T", "examples": ["x"]},
           "b": {"type": "string", "nullable": true, "default": "n"}, "c": {"type": ["integer", "null"]},
           "d": {"oneOf": [{"type": "string", "default": "x"}, {"type": "number", "description": "n"}], "description": "o"},
           "e": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "boolean"}}}},
           "f": {"type": "array"}, "g": {"type": "object"}, "h": {"type": "string", "enum": ["a", "b"], "default": "a"},
           "i": {}, "j": {"type": "object", "properties": {"k": {"type": "object", "additionalProperties": true}}}},
           "required": ["a", "zz"]})"}) {
    const Json json = parse_json(schema, "schema");
    EXPECT_EQ(shown(schema), typescript_type(json));
  }
}

// Builds ten definitions that each refer to the next one ten times, and a chain of a thousand definitions.
TEST(ShownSchema, WhatIsWrittenOutIsBounded) {
  std::string wide, chain;
  for (int n = 0; n < 10; ++n) {
    std::string properties;
    for (int k = 0; k < 10; ++k)
      properties += fmt::format(R"({}"p{}": {{"$ref": "#/$defs/D{}"}})", k ? "," : "", k, n + 1);
    wide += fmt::format(R"("D{}": {{"type": "object", "properties": {{{}}}}},)", n, properties);
  }
  const std::string type =
      shown(R"({"$ref": "#/$defs/D0", "$defs": {)" + wide + R"("D10": {"type": "string"}}})");
  EXPECT_GT(type.size(), 1000u);
  EXPECT_LT(type.size(), 1'000'000u);
  for (int n = 0; n < 1000; ++n)
    chain += fmt::format(R"("D{}": {{"type": "array", "items": {{"$ref": "#/$defs/D{}"}}}},)", n, n + 1);
  EXPECT_LT(shown(R"({"$ref": "#/$defs/D0", "$defs": {)" + chain + R"("D1000": {"type": "string"}}})").size(),
            1000u);
  EXPECT_EQ(
      shown(R"({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}})"),
      "A");
}

}  // namespace
}  // namespace nibble::harmony
