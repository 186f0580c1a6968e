// Makes random schemas from supported keywords. The schemas are the same on every machine.
#pragma once

#include <random>
#include <string>

#include "core/text/json.h"
#include "grammar/languages/schema/json_schema.h"

namespace nibble::grammar {

class RandomSchemas {
 public:
  explicit RandomSchemas(unsigned seed) : random_(seed) {}

  Json make(int depth = 3) {
    switch (below(depth > 0 ? 14 : 8)) {
      case 0:
        return string();
      case 1:
        return integer();
      case 2:
        return number();
      case 3:
        return {{"type", "boolean"}};
      case 4:
        return {{"enum", {"red", "light green", nullptr, 12, "re\"d\n", 1.5, Json::array({1, "x"})}}};
      case 5:
        return {{"type", Json::array({"null", one_of({"string", "integer", "boolean"})})}};
      case 6:
        return formatted();
      case 7:
        return {{"const", one_of({"fixed", "\u00e9\u4e16", ""})}};
      case 8:
        return array(depth);
      case 9:
      case 10:
        return object(depth);
      case 11:
        return {{"anyOf", {make(depth - 1), make(depth - 1)}}};
      case 12:
        return {{"allOf", {object(depth), {{"type", "object"}, {"required", {"a"}}}}}};
      default:
        return Json::object();
    }
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string one_of(std::vector<std::string> texts) {
    return texts[static_cast<size_t>(below(static_cast<int>(texts.size())))];
  }

  Json string() {
    Json schema{{"type", "string"}};
    if (below(2)) schema["maxLength"] = 2 + below(12);
    if (below(3) == 0) schema["minLength"] = below(3);
    if (below(3) == 0)
      schema["pattern"] = one_of({"^[a-z]+$", "a", "^\\S*$", "^(ab|c)*$", "[0-9]{2}", "^.\\W"});
    return schema;
  }
  Json formatted() {
    return {{"type", "string"}, {"format", one_of({"date", "date-time", "email", "ipv4", "uuid", "uri"})}};
  }
  Json integer() {
    Json schema{{"type", "integer"}};
    if (below(2)) schema["minimum"] = below(300) - 150;
    if (below(2)) schema["maximum"] = 150 + below(3000);
    if (below(4) == 0) schema["multipleOf"] = 1 + below(12);
    return schema;
  }
  Json number() {
    Json schema{{"type", "number"}};
    if (below(2)) schema["minimum"] = (below(400) - 200) / 8.0;
    if (below(2)) schema["exclusiveMaximum"] = 25 + below(400) / 16.0;
    return schema;
  }
  Json array(int depth) {
    Json schema{{"type", "array"}, {"items", make(depth - 1)}};
    if (below(2)) schema["minItems"] = below(3);
    if (below(2)) schema["maxItems"] = 2 + below(3);
    if (below(3) == 0) schema["prefixItems"] = {make(depth - 1), make(depth - 1)};
    return schema;
  }
  Json object(int depth) {
    Json schema{{"type", "object"}, {"properties", Json::object()}};
    for (const char* name : {"a", "name", "na\"me", "list of things", "\u00fc"}) {
      if (below(2)) continue;
      schema["properties"][name] = make(depth - 1);
      if (below(2)) schema["required"].push_back(name);
    }
    switch (below(4)) {
      case 0:
        schema["additionalProperties"] = false;
        break;
      case 1:
        schema["additionalProperties"] = {{"type", "integer"}};
        break;
      case 2:
        schema["patternProperties"] = {{"^x_", {{"type", "boolean"}}}};
        break;
      default:
        break;
    }
    if (below(4) == 0) schema["maxProperties"] = 3 + below(3);
    if (below(4) == 0) schema["minProperties"] = 1;
    return schema;
  }

  std::mt19937 random_;
};

}  // namespace nibble::grammar
