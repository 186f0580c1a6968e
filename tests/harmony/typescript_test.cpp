#include "harmony/typescript.h"
#include "core/text/json.h"

#include <gtest/gtest.h>

namespace nibble::harmony {
namespace {

std::string type(std::string_view schema) { return typescript_type(parse_json(schema, "schema")); }

std::string property(const std::string& schema) {
  return type(R"({"type": "object", "properties": {"k": )" + schema + "}}");
}

// The expected text is the official renderer's output for the function in the renderer's own test.
TEST(Typescript, CommentsAreAboveAPropertyAndDefaultsAfterIt) {
  EXPECT_EQ(
      property(
          R"({"type": "string", "title": "STRING", "description": "A string", "examples": ["hello", 7]})"),
      "{\n// STRING\n//\n// A string\n// Examples:\n// - \"hello\"\nk?: string,\n}");
  EXPECT_EQ(property(R"({"type": "string", "nullable": true, "default": "the default"})"),
            "{\nk?: string | null, // default: \"the default\"\n}");
  EXPECT_EQ(property(R"({"oneOf": [{"type": "string", "default": "x"},
                                   {"type": "number", "description": "numbers can happen too"}],
                         "description": "a oneof", "default": 20})"),
            "{\n// a oneof\n// default: 20\nk?:\n | string // default: \"x\"\n | number // numbers can "
            "happen too\n,\n}");
}

TEST(Typescript, ADefaultOfAnEnumHasNoQuotesButInAUnionItHas) {
  EXPECT_EQ(property(R"({"type": "string", "enum": ["a", "b"], "default": "a"})"),
            "{\nk?: \"a\" | \"b\", // default: a\n}");
  EXPECT_EQ(type(R"({"oneOf": [{"type": "string", "enum": ["a"], "default": "a"}]})"),
            "\n | \"a\" // default: \"a\"");
}

TEST(Typescript, PropertiesKeepTheirOrderAndRequiredOnesHaveNoQuestionMark) {
  EXPECT_EQ(type(R"({"type": "object", "properties": {"z": {"type": "number"}, "a": {"type": "integer"}},
                     "required": ["a", 7]})"),
            "{\nz?: number,\na: number,\n}");
}

TEST(Typescript, NestedTypesAreIndented) {
  EXPECT_EQ(
      property(R"({"type": "object", "description": "inner", "properties": {"x": {"type": "boolean"}}})"),
      "{\n// inner\nk?:     // inner\n{\n    x?: boolean,\n    },\n}");
}

TEST(Typescript, WhatHarmonyDoesNotKnowIsAny) {
  for (const char* schema : {R"({"anyOf": [{"type": "string"}]})", R"({"$ref": "#/x"})", R"({"const": 1})",
                             "{}", "true", R"({"type": "null"})", R"({"type": []})", R"({"type": 7})"})
    EXPECT_EQ(type(schema), "any") << schema;
}

TEST(Typescript, ListsOfTypesAndArrays) {
  EXPECT_EQ(type(R"({"type": ["integer", "null"]})"), "number | null");
  EXPECT_EQ(type(R"({"type": "array"})"), "Array<any>");
  EXPECT_EQ(type(R"({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}})"), "\"a\" | \"b\"[]");
}

TEST(Typescript, NumbersAreWrittenAsTheOfficialRendererWritesThem) {
  const std::pair<const char*, const char*> kNumbers[]{{"1.0", "1.0"},
                                                       {"0.1", "0.1"},
                                                       {"1e15", "1000000000000000.0"},
                                                       {"1e16", "1e16"},
                                                       {"0.00001", "0.00001"},
                                                       {"1e-6", "1e-6"},
                                                       {"2.5E-7", "2.5e-7"},
                                                       {"-0.0", "-0.0"},
                                                       {"1.5e300", "1.5e300"},
                                                       {"20", "20"},
                                                       {"18446744073709551615", "18446744073709551615"},
                                                       {"18446744073709551616", "1.8446744073709552e19"}};
  for (const auto& [in, out] : kNumbers)
    EXPECT_EQ(json_line(parse_json(in, "number"), JsonSpacing::kNone), out);
  EXPECT_EQ(property(R"({"default": {"a": [1.50, "é\n"], "b": null}})"),
            "{\nk?: any, // default: {\"a\":[1.5,\"é\\n\"],\"b\":null}\n}");
}

}  // namespace
}  // namespace nibble::harmony
