// The fields of a JSON object, each read with the type and the range that it must have, so that an impossible value is
// one line that names file, field, value and what is accepted. A field that is null counts as absent, as in Python.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace nibble {

// Refuses what is not JSON, what is nested deeper than any configuration, and a name that stands twice in one object
// (readers differ in which of the two they take). `origin` names the source in messages.
nlohmann::json parse_json(std::string_view text, const std::string& origin);

class Fields {
 public:
  using Names = std::initializer_list<std::string_view>;  // spellings of one field: those present must agree

  // `where`: what messages begin with. The object must outlive this.
  Fields(const nlohmann::json& object, std::string where);

  Fields object(std::string_view name) const;
  const nlohmann::json* find(std::string_view name) const;  // null: it is not there

  int integer(Names names, int least, int most) const;
  int integer_or(Names names, int otherwise, int least, int most) const;
  double number(Names names, double least, double most) const;
  double number_or(Names names, double otherwise, double least, double most) const;
  bool boolean_or(std::string_view name, bool otherwise) const;
  // Where the field is there, it must be `value`: nibble computes nothing else.
  void must_be(std::string_view name, const nlohmann::json& value) const;
  // Every field must be one of these: for objects in which an unknown field changes what is computed.
  void only(Names names) const;

  [[noreturn]] void refuse(std::string_view name, const std::string& accepted) const;

 private:
  struct Field {
    std::string_view name;        // the spelling used
    const nlohmann::json* value;  // null: none of them is there
  };
  Field find_any(Names names) const;
  Field require(Names names, const std::string& accepted) const;

  const nlohmann::json* object_;
  std::string where_;
};

}  // namespace nibble
