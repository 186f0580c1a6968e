// Reads untrusted JSON field by field. A Field is a value and its place in the document, which every error message names.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "harmony/json_text.h"

namespace nibble::harmony {

class Field {
 public:
  Field(const Json& value, std::string place) : value_(&value), place_(std::move(place)) {}

  const Json& value() const { return *value_; }
  const std::string& place() const { return place_; }

  // Throws InputError: "messages[2].role must be one of ..., not 7".
  [[noreturn]] void refuse(std::string_view accepted) const;

  // Members of an object; any other value is refused. A member that is null counts as absent.
  std::optional<Field> find(const char* key) const;
  Field need(const char* key, std::string_view accepted) const;
  std::optional<std::string> find_string(const char* key) const;
  std::string need_string(const char* key) const;
  void allow_only(std::initializer_list<std::string_view> keys) const;

  std::vector<Field> elements() const;  // refuses any value but an array
  std::vector<Field> members() const;   // refuses any value but an object
  std::string string() const;
  bool boolean() const;

 private:
  const Json* value_;
  std::string place_;
};

}  // namespace nibble::harmony
