// Writes the same bytes as the official renderer, because the model was trained on its output. So the
// oddities of that output are kept: the first variant of a union is indented like the others, an array of a
// union has no parentheses, and only the first line of a property's description is a comment. A value of the
// wrong JSON type counts as absent.
#include "harmony/typescript.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/text/json.h"

namespace nibble::harmony {

namespace {

std::string type_of(const Json& schema, const std::string& indent);

const Json* find(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);  // end() if the schema is not an object
  return found == schema.end() ? nullptr : &*found;
}

const Json* find_array(const Json& schema, const char* keyword) {
  const Json* found = find(schema, keyword);
  return found && found->is_array() ? found : nullptr;
}

const std::string* find_string(const Json& schema, const char* keyword) {
  const Json* found = find(schema, keyword);
  return found ? found->get_ptr<const std::string*>() : nullptr;
}

bool is_enum(const Json& schema) {
  const Json* values = find_array(schema, "enum");
  return values && !values->empty();
}

// Returns "default: 4" or "default: \"text\""; strings of an enum have no quotes.
std::optional<std::string> default_comment(const Json& schema) {
  const Json* value = find(schema, "default");
  if (!value) return std::nullopt;
  const std::string* text = value->get_ptr<const std::string*>();
  if (!text) return "default: " + json_line(*value);
  return is_enum(schema) ? "default: " + *text : "default: \"" + *text + '"';
}

std::string type_or_null(const Json& schema, const std::string& indent) {
  std::string type = type_of(schema, indent);
  const Json* nullable = find(schema, "nullable");
  if (nullable && *nullable == true && type.find("null") == std::string::npos) type += " | null";
  return type;
}

// Returns " // DESCRIPTION default: VALUE", or the parts of it that are present.
std::string trailing_comment(const std::string* description, const std::optional<std::string>& value) {
  if (!description && !value) return "";
  return " // " + (description ? *description : "") + (description && value ? " " : "") + value.value_or("");
}

std::string union_of(const Json& variants, const std::string& indent) {
  std::string out;
  for (const Json& variant : variants) {
    std::optional<std::string> value = default_comment(variant);
    // Here an enum's default is quoted too, unlike in default_comment().
    if (value && is_enum(variant)) value = "default: " + json_line(*find(variant, "default"));
    out += '\n' + indent + " | " + type_or_null(variant, indent + "   ");
    out += trailing_comment(find_string(variant, "description"), value);
  }
  return out;
}

// Writes a property whose type is a union. Comments come first, and the variants do not repeat them.
std::string union_property(const std::string& key, const Json& schema, const Json& variants,
                           const std::string& indent) {
  const std::string* description = find_string(schema, "description");
  const std::string* first = variants.empty() ? nullptr : find_string(variants.front(), "description");
  const bool is_described = description && !(first && *first == *description);

  std::string out;
  if (is_described) out += indent + "// " + *description + '\n';
  if (const auto value = default_comment(schema)) out += indent + "// " + *value + '\n';
  out += indent + key + ":\n";
  for (const Json& variant : variants) {
    const std::string* own = find_string(variant, "description");
    const bool is_first = &variant == &variants.front();
    if ((is_first && is_described) || (own && description && *own == *description)) own = nullptr;
    out += indent + " | " + type_or_null(variant, indent + "   ");
    out += trailing_comment(own, default_comment(variant)) + '\n';
  }
  return out + indent + ",\n";
}

std::string property(const std::string& key, const Json& schema, const std::string& indent) {
  std::string out;
  if (const std::string* title = find_string(schema, "title"))
    out += indent + "// " + *title + '\n' + indent + "//\n";
  // oneOf suppresses description and default even if it is not an array.
  const bool has_one_of = find(schema, "oneOf");
  if (const std::string* description = find_string(schema, "description"); description && !has_one_of)
    out += indent + "// " + *description + '\n';
  if (const Json* examples = find_array(schema, "examples"); examples && !examples->empty()) {
    out += indent + "// Examples:\n";
    for (const Json& example : *examples)
      if (const auto* text = example.get_ptr<const std::string*>())
        out += indent + "// - \"" + *text + "\"\n";
  }
  if (const Json* variants = find_array(schema, "oneOf"))
    return out + union_property(key, schema, *variants, indent);

  out += indent + key + ": " + type_or_null(schema, indent + "    ") + ',';
  if (const auto value = default_comment(schema); value && !has_one_of) out += " // " + *value;
  return out + '\n';
}

std::string object_type(const Json& schema, const std::string& indent) {
  std::string out;
  if (const std::string* description = find_string(schema, "description"))
    out += indent + "// " + *description + '\n';
  out += "{\n";
  if (const Json* properties = find(schema, "properties"); properties && properties->is_object()) {
    const Json* required = find_array(schema, "required");
    for (const auto& [key, value] : properties->items()) {
      const bool is_required =
          required && std::find(required->begin(), required->end(), key) != required->end();
      out += property(is_required ? key : key + '?', value, indent);
    }
  }
  return out + indent + '}';
}

std::string join(const std::vector<std::string>& members) {
  std::string out;
  for (const std::string& member : members) out += (out.empty() ? "" : " | ") + member;
  return out;
}

std::string string_type(const Json& schema) {
  std::vector<std::string> members;
  if (const Json* values = find_array(schema, "enum"))
    for (const Json& value : *values)
      if (const auto* text = value.get_ptr<const std::string*>()) members.push_back('"' + *text + '"');
  return members.empty() ? "string" : join(members);
}

std::string type_of(const Json& schema, const std::string& indent) {
  if (const Json* variants = find_array(schema, "oneOf")) return union_of(*variants, indent);

  if (const Json* types = find_array(schema, "type")) {
    std::vector<std::string> members;
    for (const Json& type : *types)
      if (const auto* text = type.get_ptr<const std::string*>())
        members.push_back(*text == "integer" ? "number" : *text);
    if (!members.empty()) return join(members);
  }

  const std::string* type = find_string(schema, "type");
  if (!type) return "any";
  if (*type == "object") return object_type(schema, indent);
  if (*type == "string") return string_type(schema);
  if (*type == "number" || *type == "integer") return "number";
  if (*type == "boolean") return "boolean";
  if (*type == "array") {
    const Json* items = find(schema, "items");
    return items ? type_of(*items, indent) + "[]" : "Array<any>";
  }
  return "any";
}

}  // namespace

std::string typescript_type(const Json& schema) { return type_of(schema, ""); }

}  // namespace nibble::harmony
