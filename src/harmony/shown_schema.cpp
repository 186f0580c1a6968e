#include "harmony/shown_schema.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "core/text/remove_member.h"
#include "grammar/languages/schema/document.h"

namespace nibble::harmony {
namespace {

using grammar::SchemaDocument;

// Limits: number of schemas written inside $ref targets; depth of nested references; levels of the JSON that
// is written (parse_json() allows 128).
constexpr size_t kMaxWritten{2000}, kMaxReferences{32}, kMaxLevels{110};

const Json* member_of(const Json& schema, const char* keyword) {
  return SchemaDocument::find(schema, keyword);
}

const Json* find_object(const Json& schema, const char* keyword) {
  const Json* found = member_of(schema, keyword);
  return found && found->is_object() && !found->empty() ? found : nullptr;
}

const Json* array_of(const Json& schema, const char* keyword) {
  const Json* found = member_of(schema, keyword);
  return found && found->is_array() && !found->empty() ? found : nullptr;
}

bool has_type(const Json& schema, const char* type) {
  const Json* found = member_of(schema, "type");
  return found && *found == type;
}

bool has_any(const Json& schema, std::initializer_list<const char*> keywords) {
  return std::ranges::any_of(keywords,
                             [&](const char* keyword) { return member_of(schema, keyword) != nullptr; });
}

// Makes a schema that is shown as the TypeScript type `name`. typescript.cpp writes a name that it does not
// know only if it is in a list of types.
Json named_type(std::string name) { return {{"type", Json::array({std::move(name)})}}; }

// Returns "Node" for "#/$defs/Node".
std::string name_of(std::string_view reference) {
  std::string name(reference.substr(reference.find_last_of("/#") + 1));
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name.empty() ? "Arguments" : name;
}

// Adds the keywords of `from`. If both schemas have a keyword, `into` keeps its own value.
void merge(Json& into, const Json& from) {
  for (const auto& [key, value] : from.items()) {
    const auto own = into.find(key);
    if (own == into.end()) {
      into[key] = value;
    } else if (key == "properties" && own->is_object() && value.is_object()) {
      for (const auto& [name, property] : value.items())
        if (!own->contains(name)) (*own)[name] = property;
    } else if (key == "required" && own->is_array() && value.is_array()) {
      own->insert(own->end(), value.begin(), value.end());
    }
  }
}

// Whether the type fits in a list of types, as "string" and ["string", "null"] do.
bool is_plain(const Json& schema) {
  return member_of(schema, "type") && !has_type(schema, "object") && !has_type(schema, "array") &&
         !has_any(schema, {"enum", "oneOf", "description"});
}

class Rewriter {
 public:
  explicit Rewriter(const Json& root) : document_(root), open_{&root} {}

  Json rewrite(const Json& schema, size_t level) {
    if (schema.is_boolean()) return schema.get<bool>() ? Json::object() : named_type("never");
    if (!schema.is_object() || level > kMaxLevels) return Json::object();
    const size_t num_open = open_.size();
    Json out = flatten(schema);
    rewrite_values(out);
    rewrite_type(out);
    rewrite_parts(out, level);
    rewrite_union(out, level);
    for (size_t i = num_open; i < open_.size(); ++i) describe(out, open_[i]);
    if (level == 0) describe(out, open_[0]);
    open_.resize(num_open);
    return out;
  }

 private:
  // Merges the targets of $ref and allOf into the schema. Targets of $ref stay in open_ until rewrite() has
  // finished this schema, so that open() notices a target that refers to itself.
  Json flatten(const Json& schema) {
    Json out = schema;
    for (const char* keyword : {"$ref", "allOf", "$defs", "definitions"}) remove_member(out, keyword);
    if (const Json* reference = member_of(schema, "$ref"); reference && reference->is_string()) {
      const std::string name = name_of(reference->get<std::string>());
      if (const Json* target = target_of(schema)) merge(out, open(*target, name));
    }
    if (const Json* all = array_of(schema, "allOf"))
      for (const Json& part : *all)
        if (part.is_object() && has_room()) merge(out, flatten(part));
    return out;
  }

  bool has_room() { return open_.size() == 1 || num_written_++ < kMaxWritten; }

  const Json* target_of(const Json& schema) const {
    try {
      const Json& target = document_.target(schema);
      return target.is_object() ? &target : nullptr;
      // A target that is absent or in another document is reported by the grammar's compiler.
    } catch (const InputError&) {
      return nullptr;
    }
  }

  Json open(const Json& target, const std::string& name) {
    const bool is_open = std::ranges::find(open_, &target) != open_.end();
    if (is_open || open_.size() > kMaxReferences || !has_room()) {
      named_.insert(&target);
      names_.emplace(&target, name);
      return named_type(name);
    }
    open_.push_back(&target);
    return flatten(target);
  }

  // If the type refers to itself by name, puts that name at the start of its description.
  void describe(Json& out, const Json* target) {
    if (named_.erase(target) == 0) return;
    const Json* text = member_of(out, "description");
    const std::string& name = names_.at(target);
    out["description"] = text && text->is_string() ? name + ": " + text->get<std::string>() : name;
  }

  static void rewrite_values(Json& out) {
    if (const Json* value = member_of(out, "const"); value && !member_of(out, "enum"))
      out["enum"] = Json::array({*value});
    remove_member(out, "const");
    const Json* values = array_of(out, "enum");
    if (!values || member_of(out, "type")) return;
    if (std::ranges::all_of(*values, [](const Json& value) { return value.is_string(); })) {
      out["type"] = "string";
      return;
    }
    Json types = Json::array();
    for (const Json& value : *values) types.push_back(json_line(value));
    out["type"] = std::move(types);
  }

  // Sets the type that other keywords imply. Writes the list ["object", "null"] or ["array", "null"] as the
  // one type and "nullable": true, because members and items are shown only for a single type.
  static void rewrite_type(Json& out) {
    const bool has_members =
        has_any(out, {"properties", "additionalProperties", "patternProperties", "required"});
    const Json* types = array_of(out, "type");
    if (!member_of(out, "type") && !array_of(out, "oneOf") && !array_of(out, "anyOf")) {
      if (has_members)
        out["type"] = "object";
      else if (member_of(out, "items"))
        out["type"] = "array";
    } else if (has_type(out, "null")) {
      out["type"] = Json::array({"null"});
    } else if (types) {
      const auto has = [&](const char* type) {
        return std::find(types->begin(), types->end(), type) != types->end();
      };
      const bool is_nullable = has("null");
      const char* other = has("object") && has_members              ? "object"
                          : has("array") && member_of(out, "items") ? "array"
                                                                    : nullptr;
      if (!other || types->size() != (is_nullable ? 2u : 1u)) return;
      out["type"] = other;
      if (is_nullable) out["nullable"] = true;
    }
  }

  void rewrite_parts(Json& out, size_t level) {
    if (const Json* items = member_of(out, "items"); items && !items->is_array() && has_room())
      out["items"] = rewrite(*items, level + 1);
    Json properties = Json::object();
    if (const Json* declared = find_object(out, "properties")) {
      for (const auto& [name, property] : declared->items())
        properties[name] = has_room() ? rewrite(property, level + 2) : Json::object();
    } else if (const Json* required = array_of(out, "required"); required && level == 0) {
      for (const Json& name : *required)
        if (name.is_string()) properties[name.get<std::string>()] = Json::object();
    }
    add_keys(out, level, properties);
    if (!properties.empty()) out["properties"] = std::move(properties);
  }

  // Shows the members that additionalProperties and patternProperties describe as properties named
  // "[key: string]" and "[key: /PATTERN/]".
  void add_keys(Json& out, size_t level, Json& properties) {
    const auto add = [&](const std::string& key, const Json& schema) {
      if (!has_room()) return;
      properties[key] = rewrite(schema, level + 2);
      out["required"].push_back(key);
    };
    if (!array_of(out, "required")) out["required"] = Json::array();
    if (const Json* patterns = find_object(out, "patternProperties"))
      for (const auto& [pattern, schema] : patterns->items()) add("[key: /" + pattern + "/]", schema);
    if (const Json* others = find_object(out, "additionalProperties")) add("[key: string]", *others);
    if (out["required"].empty()) remove_member(out, "required");
    for (const char* keyword : {"patternProperties", "additionalProperties"}) remove_member(out, keyword);
  }

  // Rewrites anyOf and oneOf. Adds the schema's own properties to each variant. Drops a union that only lists
  // required properties. Drops an anyOf next to a type other than object: only the type is shown.
  void rewrite_union(Json& out, size_t level) {
    const bool is_any_of = !array_of(out, "oneOf");
    const Json* given = array_of(out, is_any_of ? "anyOf" : "oneOf");
    if (!given) return;
    Json variants = Json::array();
    for (const Json& variant : *given)
      if (has_room()) variants.push_back(rewrite(variant, level + 2));
    remove_member(out, "anyOf");
    remove_member(out, "oneOf");
    if (variants.empty()) return;
    if (find_object(out, "properties")) return spread(out, variants);
    const bool is_object = has_type(out, "object");
    if (is_any_of && member_of(out, "type") && !is_object) return;
    if (is_object)
      for (Json& variant : variants)
        if (!member_of(variant, "type")) variant["type"] = "object";
    if (is_any_of && join(out, variants)) return;
    remove_member(out, "type");
    out["oneOf"] = std::move(variants);
  }

  static void spread(Json& out, Json& variants) {
    if (std::ranges::none_of(variants,
                             [](const Json& variant) { return find_object(variant, "properties"); }))
      return;
    Json common = Json::object();
    for (const char* keyword : {"type", "properties", "required"})
      if (const auto found = out.find(keyword); found != out.end()) {
        common[keyword] = *found;
        remove_member(out, keyword);
      }
    for (Json& variant : variants) {
      Json whole = common;
      merge(whole, variant);
      variant = std::move(whole);
    }
    out["oneOf"] = std::move(variants);
  }

  // Writes anyOf on one line if its variants are plain types, or one type and null; else returns false.
  static bool join(Json& out, const Json& variants) {
    if (std::ranges::all_of(variants, is_plain)) {
      Json types = Json::array();
      for (const Json& variant : variants)
        for (const Json& type : variant["type"].is_array() ? variant["type"] : Json::array({variant["type"]}))
          if (std::ranges::find(types, type) == types.end()) types.push_back(type);
      out["type"] = std::move(types);
      return true;
    }
    const auto is_null = [](const Json& variant) { return variant == named_type("null"); };
    const auto other = std::ranges::find_if_not(variants, is_null);
    if (variants.size() != 2 || std::ranges::count_if(variants, is_null) != 1) return false;
    if (!member_of(*other, "type") || !(*other)["type"].is_string()) return false;
    remove_member(out, "type");
    merge(out, *other);
    out["nullable"] = true;
    return true;
  }

  SchemaDocument document_;
  std::vector<const Json*> open_;  // the root, then the targets of $ref that contain the current schema
  std::set<const Json*> named_;    // targets referred to by name
  std::map<const Json*, std::string> names_;
  size_t num_written_{0};
};

}  // namespace

std::optional<Json> shown_schema(const Json& schema) {
  if (SchemaDocument::is_true(schema)) return std::nullopt;
  Json shown = Rewriter(schema).rewrite(schema, 0);
  const bool is_bare = has_type(shown, "object") && !find_object(shown, "properties");
  return is_bare ? std::nullopt : std::optional(std::move(shown));
}

}  // namespace nibble::harmony
