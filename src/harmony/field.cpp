#include "harmony/field.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/errors/error.h"
#include "core/text/json.h"

namespace nibble::harmony {

void Field::refuse(std::string_view accepted, std::string_view reason) const {
  constexpr size_t kMaxShown{60};
  std::string shown =
      // The value is printed in ASCII: a cut at any byte then leaves valid UTF-8.
      value_->dump(-1, ' ', /*ensure_ascii=*/true);
  if (shown.size() > kMaxShown) shown = shown.substr(0, kMaxShown) + "...";
  throw InputError("{} must be {}, not {}{}{}", place_, accepted, shown, reason.empty() ? "" : ": ", reason);
}

void Field::look_into() const {
  if (!value_->is_object()) refuse("an object");
  if (record_) record_->objects_.insert(value_);
}

std::optional<Field> Field::find(const char* key) const {
  look_into();
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  if (record_) record_->members_.insert(&*found);
  return Field(*found, fmt::format("{}.{}", place_, key), record_);
}

Field Field::need(const char* key, std::string_view accepted) const {
  if (const auto field = find(key)) return *field;
  throw InputError("{}.{} is missing; it must be {}", place_, key, accepted);
}

std::optional<std::string> Field::find_string(const char* key) const {
  const auto field = find(key);
  return field ? std::optional(field->string()) : std::nullopt;
}

std::string Field::need_string(const char* key) const { return need(key, "a string").string(); }

void Field::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const Field& member : members()) {
    const std::string_view key = std::string_view(member.place_).substr(place_.size() + 1);
    if (std::ranges::find(keys, key) == keys.end())
      throw InputError("{} is unknown; expected one of {}", member.place_, fmt::join(keys, ", "));
  }
}

void Field::skip(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) find(key);
}

void Field::leave_out(std::string_view type) const {
  if (!record_) return;
  std::string name = name_of_place(place_);
  if (name.ends_with("[]")) name.resize(name.size() - 2);
  if (!type.empty()) name += fmt::format(".{}", type);
  record_->left_out_.push_back(std::move(name));
  record_->objects_.erase(value_);
}

std::vector<Field> Field::elements() const {
  if (!value_->is_array()) refuse("a list");
  std::vector<Field> elements;
  for (const Json& element : *value_)
    elements.emplace_back(element, fmt::format("{}[{}]", place_, elements.size()), record_);
  return elements;
}

std::vector<Field> Field::members() const {
  look_into();
  std::vector<Field> members;
  for (const auto& [key, member] : value_->items()) {
    if (record_) record_->members_.insert(&member);
    members.emplace_back(member, fmt::format("{}.{}", place_, key), record_);
  }
  return members;
}

std::string Field::string() const {
  if (!value_->is_string()) refuse("a string");
  return value_->get<std::string>();
}

bool Field::boolean() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

std::string name_of_place(std::string_view place) {
  const size_t root = std::min(place.find_first_of(".["), place.size());
  if (root < place.size() && place[root] == '.') place.remove_prefix(root + 1);
  std::string name;
  for (size_t i = 0; i < place.size(); ++i) {
    name += place[i];
    if (place[i] != '[') continue;
    while (i + 1 < place.size() && place[i + 1] >= '0' && place[i + 1] <= '9') ++i;
  }
  return name;
}

}  // namespace nibble::harmony
