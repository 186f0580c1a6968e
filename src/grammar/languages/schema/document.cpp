#include "grammar/languages/schema/document.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>

#include "grammar/languages/one_line.h"
#include "grammar/limits.h"

namespace nibble::grammar {
namespace {

std::string escaped_token(std::string_view name) {
  std::string token;
  for (const char c : name) token += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return token;
}

std::string unescaped_token(std::string_view token) {
  std::string name;
  for (size_t i = 0; i < token.size(); ++i) {
    const std::string_view rest = token.substr(i);
    if (rest[0] == '%' && rest.size() > 2 && std::isxdigit(static_cast<unsigned char>(rest[1])) &&
        std::isxdigit(static_cast<unsigned char>(rest[2]))) {
      name += static_cast<char>(std::stoi(std::string(rest.substr(1, 2)), nullptr, 16));
      i += 2;
    } else {
      name += rest[0];
    }
  }
  std::string result;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool is_escape =
        name[i] == '~' && i + 1 < name.size() && (name[i + 1] == '0' || name[i + 1] == '1');
    result += !is_escape ? name[i] : name[++i] == '0' ? '~' : '/';
  }
  return result;
}

}  // namespace

SchemaDocument::SchemaDocument(const Json& root, const std::set<std::string>& widened) : root_(root) {
  size_t num_bytes = 0;
  const std::function<void(const Json&, uint32_t)> visit = [&](const Json& part, uint32_t depth) {
    if (depth > kMaxDepth) throw InputError("schema: it is nested more than {} levels deep", kMaxDepth);
    num_bytes += part.is_string() ? part.get_ref<const std::string&>().size() : 1;
    if (part.is_object()) {
      const Json* id = find(part, "$id");
      if (&part != &root_ && id != nullptr && id->is_string() &&
          !id->get_ref<const std::string&>().starts_with('#'))
        has_embedded_resources_ = true;
      for (const auto& [name, member] : part.items()) {
        num_bytes += name.size();
        visit(member, depth + 1);
      }
    } else if (part.is_array()) {
      for (const Json& element : part) visit(element, depth + 1);
    }
  };
  visit(root, 0);
  hides_siblings_ = hides_siblings(root);
  if (num_bytes > kMaxSourceBytes)
    throw InputError("schema: it is larger than {} MiB", kMaxSourceBytes >> 20);
  for (const std::string& place : widened)
    if (const Json::json_pointer pointer(place); root_.contains(pointer)) widened_.insert(&root_.at(pointer));
}

const Json* SchemaDocument::find(const Json& schema, std::string_view keyword) {
  if (!schema.is_object()) return nullptr;
  const auto member = schema.find(keyword);
  return member == schema.end() ? nullptr : &*member;
}

bool SchemaDocument::is_true(const Json& schema) {
  return (schema.is_boolean() && schema.get<bool>()) || (schema.is_object() && schema.empty());
}

const Json* SchemaDocument::property(const Json& schema, const std::string& name) const {
  constexpr size_t kFew{16};
  const Json* properties = find(schema, "properties");
  if (properties == nullptr || properties->size() <= kFew)
    return properties == nullptr ? nullptr : find(*properties, name);
  auto& index = properties_[properties];
  if (index.empty())
    for (auto property = properties->begin(); property != properties->end(); ++property)
      index.emplace(property.key(), &*property);
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

std::optional<uint32_t> SchemaDocument::count(const Json& schema, std::string_view keyword) const {
  const Json* value = find(schema, keyword);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || value->get<double>() < 0 ||
      std::floor(value->get<double>()) != value->get<double>())
    refuse(schema, keyword, "it must be a non-negative integer");
  return static_cast<uint32_t>(std::min(value->get<double>(), double{kUnlimited - 1}));
}

const Json* SchemaDocument::number(const Json& schema, std::string_view keyword) const {
  const Json* value = find(schema, keyword);
  if (value != nullptr && !value->is_number()) refuse(schema, keyword, "it must be a number");
  return value;
}

const Json* SchemaDocument::text(const Json& schema, std::string_view keyword) const {
  const Json* value = find(schema, keyword);
  if (value != nullptr && !value->is_string()) refuse(schema, keyword, "it must be a string");
  return value;
}

const Json* SchemaDocument::list(const Json& schema, std::string_view keyword) const {
  const Json* value = find(schema, keyword);
  if (value != nullptr && !value->is_array()) refuse(schema, keyword, "it must be an array");
  return value;
}

const Json* SchemaDocument::object(const Json& schema, std::string_view keyword) const {
  const Json* value = find(schema, keyword);
  if (value != nullptr && !value->is_object()) refuse(schema, keyword, "it must be an object");
  return value;
}

bool SchemaDocument::flag(const Json& schema, std::string_view keyword) const {
  const Json* value = find(schema, keyword);
  if (value != nullptr && !value->is_boolean()) refuse(schema, keyword, "it must be true or false");
  return value != nullptr && value->get<bool>();
}

void SchemaDocument::refuse(const Json& schema, std::string_view keyword, std::string_view why) const {
  throw refusal(schema, keyword, why);
}

void SchemaDocument::refuse_failure(const Json& schema, std::string_view keyword,
                                    std::string_view why) const {
  Refusal failure = refusal(schema, keyword, why);
  failure.is_failure = true;
  throw failure;
}

Refusal SchemaDocument::refusal(const Json& schema, std::string_view keyword, std::string_view why) const {
  const std::string place = path_of(schema);
  return {place, keyword,
          fmt::format("schema: '{}' at #{}: {}", one_line(keyword), one_line(place), one_line(why))};
}

std::string SchemaDocument::path_of(const Json& part) const {
  const std::function<std::optional<std::string>(const Json&)> below =
      [&](const Json& in) -> std::optional<std::string> {
    if (&in == &part) return "";
    if (in.is_object())
      for (const auto& [name, member] : in.items())
        if (const auto path = below(member)) return "/" + escaped_token(name) + *path;
    if (in.is_array())
      for (size_t i = 0; i < in.size(); ++i)
        if (const auto path = below(in[i])) return "/" + std::to_string(i) + *path;
    return std::nullopt;
  };
  return below(root_).value_or("");
}

const Json* SchemaDocument::at_pointer(std::string_view pointer) const {
  const Json* at = &root_;
  while (!pointer.empty()) {
    if (pointer[0] != '/') return nullptr;
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    const std::string token = unescaped_token(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    if (at->is_object()) {
      at = find(*at, token);
      if (at == nullptr) return nullptr;
    } else if (at->is_array()) {
      const bool is_index = !token.empty() && token.size() < 8 && std::ranges::all_of(token, [](char c) {
        return std::isdigit(static_cast<unsigned char>(c));
      });
      const size_t index = is_index ? std::stoul(token) : at->size();
      if (index >= at->size()) return nullptr;
      at = &(*at)[index];
    } else {
      return nullptr;
    }
  }
  return at;
}

const Json* SchemaDocument::at_anchor(const Json& part, std::string_view name) const {
  if (part.is_object()) {
    const auto is = [&](const char* keyword, const std::string& value) {
      const Json* found = find(part, keyword);
      return found != nullptr && found->is_string() && found->get_ref<const std::string&>() == value;
    };
    const std::string plain(name);
    if (is("$anchor", plain) || is("$dynamicAnchor", plain) || is("$id", "#" + plain) ||
        is("id", "#" + plain))
      return &part;
  }
  if (part.is_structured())
    for (const Json& inner : part)
      if (const Json* found = at_anchor(inner, name)) return found;
  return nullptr;
}

bool SchemaDocument::hides_siblings(const Json& root) {
  const Json* draft = find(root, "$schema");
  return draft != nullptr && draft->is_string() &&
         draft->get_ref<const std::string&>().find("json-schema.org/draft-0") != std::string::npos;
}

const Json& SchemaDocument::target(const Json& schema) const {
  const std::string& reference = text(schema, "$ref")->get_ref<const std::string&>();
  if (has_embedded_resources_)
    refuse(schema, "$ref",
           "references in a document with several '$id' are not supported; remove the inner '$id's");
  const size_t hash = std::min(reference.find('#'), reference.size());
  const std::string base = reference.substr(0, hash);
  const Json* id = find(root_, "$id");
  if (id == nullptr) id = find(root_, "id");
  const bool is_own =
      base.empty() ||
      (id != nullptr && id->is_string() &&
       (id->get_ref<const std::string&>() == base || id->get_ref<const std::string&>() == base + "#"));
  if (!is_own)
    refuse(schema, "$ref",
           fmt::format("'{}' is another document, which is not loaded; put it in '$defs'", reference));
  const std::string_view fragment = std::string_view(reference).substr(std::min(hash + 1, reference.size()));
  const Json* found =
      fragment.empty() || fragment[0] == '/' ? at_pointer(fragment) : at_anchor(root_, fragment);
  if (found == nullptr)
    refuse(schema, "$ref", fmt::format("'{}' refers to nothing in the schema", reference));
  return *found;
}

bool is_same_value(const Json& a, const Json& b) {
  return a.is_structured() ? nlohmann::json(a) == nlohmann::json(b) : a == b;
}

}  // namespace nibble::grammar
