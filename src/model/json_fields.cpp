#include "model/json_fields.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"

namespace nibble {
namespace {

constexpr int kMaxDepth{32};           // a configuration has 3
constexpr size_t kMaxShownLength{80};  // of a value in a message
constexpr auto kReplaceInvalidUtf8{nlohmann::json::error_handler_t::replace};

std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, kReplaceInvalidUtf8);
  if (text.size() > kMaxShownLength) text = text.substr(0, kMaxShownLength) + "...";
  return text;
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& origin) {
  std::vector<std::set<std::string>> names;  // of the objects that are open
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > kMaxDepth) throw InputError("{}: is nested deeper than {} levels", origin, kMaxDepth);
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key && !names.back().insert(value.get<std::string>()).second)
      throw InputError("{}: holds {} twice in one object", origin, shown(value));
    return true;
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::parse_error& error) {
    throw InputError("{}: is not JSON: error at byte {}", origin, error.byte);
  } catch (const nlohmann::json::out_of_range&) {
    throw InputError("{}: holds a number that is too large", origin);
  }
}

Fields::Fields(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) throw InputError("{}: is {}; accepted: an object {{...}}", where_, shown(object));
}

const nlohmann::json* Fields::find(std::string_view name) const {
  const auto field = object_->find(name);
  return field == object_->end() || field->is_null() ? nullptr : &*field;
}

Fields Fields::object(std::string_view name) const {
  return {*require({name}, "an object").value, fmt::format("{}: '{}'", where_, name)};
}

Fields::Field Fields::find_any(Names names) const {
  Field found{*names.begin(), nullptr};
  for (const std::string_view name : names) {
    const nlohmann::json* value = find(name);
    if (!value) continue;
    if (found.value && *found.value != *value)
      throw InputError("{}: '{}' is {} but '{}', which means the same, is {}", where_, found.name,
                       shown(*found.value), name, shown(*value));
    if (!found.value) found = {name, value};
  }
  return found;
}

Fields::Field Fields::require(Names names, const std::string& accepted) const {
  const Field field = find_any(names);
  if (!field.value) refuse(field.name, accepted);
  return field;
}

int Fields::integer(Names names, int least, int most) const {
  const std::string accepted = fmt::format("a whole number from {} to {}", least, most);
  const auto [name, value] = require(names, accepted);
  // Beyond 2^63 the signed value would wrap.
  const bool wraps = value->is_number_unsigned() && value->get<uint64_t>() > uint64_t(INT64_MAX);
  if (!value->is_number_integer() || wraps || value->get<int64_t>() < least || value->get<int64_t>() > most)
    refuse(name, accepted);
  return value->get<int>();
}

int Fields::integer_or(Names names, int otherwise, int least, int most) const {
  return find_any(names).value ? integer(names, least, most) : otherwise;
}

double Fields::number(Names names, double least, double most) const {
  const std::string accepted = fmt::format("a number from {} to {}", least, most);
  const auto [name, value] = require(names, accepted);
  if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most))
    refuse(name, accepted);
  return value->get<double>();
}

double Fields::number_or(Names names, double otherwise, double least, double most) const {
  return find_any(names).value ? number(names, least, most) : otherwise;
}

bool Fields::boolean_or(std::string_view name, bool otherwise) const {
  const nlohmann::json* value = find(name);
  if (value && !value->is_boolean()) refuse(name, "true or false");
  return value ? value->get<bool>() : otherwise;
}

void Fields::must_be(std::string_view name, const nlohmann::json& value) const {
  if (const nlohmann::json* field = find(name); field && *field != value)
    refuse(name, shown(value) + " alone");
}

void Fields::only(Names names) const {
  for (const auto& [name, value] : object_->items())
    if (std::find(names.begin(), names.end(), name) == names.end() && !value.is_null())
      throw InputError("{}: {} is unknown, and may change what the model computes", where_, shown(name));
}

void Fields::refuse(std::string_view name, const std::string& accepted) const {
  const nlohmann::json* value = find(name);
  throw InputError("{}: '{}' is {}; accepted: {}", where_, name, value ? shown(*value) : "missing", accepted);
}

}  // namespace nibble
