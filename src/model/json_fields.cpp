#include "model/json_fields.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "core/errors/error.h"
#include "core/text/word_list.h"

namespace nibble {
namespace {

// Returns a value as text for a message: on one line, cut after kMaxLength bytes.
std::string shown(Fields::Element value) {
  constexpr size_t kMaxLength{80};
  std::string text = simdjson::minify(value);
  if (text.size() <= kMaxLength) return text;
  size_t length = kMaxLength;
  while ((text[length] & 0xC0) == 0x80) --length;  // never cuts inside a UTF-8 character
  return text.substr(0, length) + "...";
}

}  // namespace

Fields::Fields(Element object, std::string where) : where_(std::move(where)) {
  if (object.get(object_)) throw InputError("{}: expected an object {{...}}, not {}", where_, shown(object));
  std::set<std::string_view> names;
  for (const auto [name, value] : object_)
    if (!names.insert(name).second) throw InputError("{}: duplicate field {:?}", where_, name.substr(0, 80));
}

std::optional<Fields::Element> Fields::find(std::string_view name) const {
  Element value;
  if (object_.at_key(name).get(value) || value.is_null()) return std::nullopt;
  return value;
}

Fields Fields::object(std::string_view name) const {
  const std::optional<Element> value = find(name);
  if (!value) refuse(name, "an object");
  return {*value, fmt::format("{}: '{}'", where_, name)};
}

int Fields::integer(Names names, int least, int most) const {
  const std::string accepted = fmt::format("a whole number from {} to {}", least, most);
  std::optional<int64_t> found;
  std::string_view found_name = *names.begin();
  for (const std::string_view name : names) {
    const std::optional<Element> value = find(name);
    if (!value) continue;
    int64_t number{0};
    if (value->get(number) || number < least || number > most) refuse(name, accepted);
    if (found && *found != number)
      throw InputError("{}: '{}' is {}, but '{}', which means the same, is {}", where_, found_name, *found,
                       name, number);
    if (!found) found_name = name;
    found = number;
  }
  if (!found) refuse(found_name, accepted);
  return static_cast<int>(*found);
}

int Fields::integer_or(std::string_view name, int otherwise, int least, int most) const {
  return find(name) ? integer({name}, least, most) : otherwise;
}

double Fields::number(std::string_view name, double least, double most) const {
  const std::optional<Element> value = find(name);
  double number{0};
  if (!value || value->get(number) || number < least || number > most)
    refuse(name, fmt::format("a number from {} to {}", least, most));
  return number;
}

double Fields::number_or(std::string_view name, double otherwise, double least, double most) const {
  return find(name) ? number(name, least, most) : otherwise;
}

bool Fields::boolean_or(std::string_view name, bool otherwise) const {
  const std::optional<Element> value = find(name);
  bool boolean{otherwise};
  if (value && value->get(boolean)) refuse(name, "true or false");
  return boolean;
}

void Fields::must_be(std::string_view name, std::string_view text) const {
  const std::optional<Element> value = find(name);
  std::string_view found;
  if (value && (value->get(found) || found != text)) refuse(name, fmt::format("{:?}", text));
}

void Fields::must_be_flag(std::string_view name, bool value) const {
  if (boolean_or(name, value) != value) refuse(name, fmt::format("{}", value));
}

void Fields::must_be_number(std::string_view name, double value) const {
  const std::optional<Element> field = find(name);
  double found{0};
  if (field && (field->get(found) || found != value)) refuse(name, fmt::format("{}", value));
}

void Fields::only(Names names) const {
  for (const auto [name, value] : object_)
    if (std::ranges::find(names, name) == names.end() && !value.is_null()) refuse_unknown(name);
}

void Fields::only_of(std::string_view names, std::string_view more_names) const {
  for (const auto [name, value] : object_)
    if (!has_word(names, name) && !has_word(more_names, name) && !value.is_null()) refuse_unknown(name);
}

void Fields::refuse_unknown(std::string_view name) const {
  throw InputError("{}: unknown field {:?}, which may change what the model computes", where_,
                   name.substr(0, 80));
}

void Fields::refuse(std::string_view name, const std::string& accepted) const {
  const std::optional<Element> value = find(name);
  throw InputError("{}: '{}' is {}; expected {}", where_, name, value ? shown(*value) : "missing", accepted);
}

void Fields::refuse_whole(const std::string& why) const { throw InputError("{}: {}", where_, why); }

}  // namespace nibble
