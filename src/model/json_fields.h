// Reads the fields of a JSON object with type and range checks. An invalid value throws an InputError; its
// one-line message has the file, the field, the value and the accepted values. A null field counts as absent.
#pragma once

#include <simdjson.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace nibble {

class Fields {
 public:
  using Names = std::initializer_list<std::string_view>;
  using Element = simdjson::dom::element;

  // Throws if `object` is not an object, or has a duplicate name: JSON readers differ in the value that they
  // take. Messages begin with `where`. The parser that owns `object` must outlive this.
  Fields(Element object, std::string where);

  std::optional<Element> find(std::string_view name) const;
  Fields object(std::string_view name) const;

  // `names`: alternative names of one field. If several are present, their values must agree.
  int integer(Names names, int least, int most) const;
  int integer_or(std::string_view name, int otherwise, int least, int most) const;
  double number(std::string_view name, double least, double most) const;
  double number_or(std::string_view name, double otherwise, double least, double most) const;
  bool boolean_or(std::string_view name, bool otherwise) const;

  // Throws if the field is present with another value than `text`, the only value that nibble implements.
  void must_be(std::string_view name, std::string_view text) const;
  void must_be_flag(std::string_view name, bool value) const;
  void must_be_number(std::string_view name, double value) const;
  // Throws if a field is not listed: for objects in which unknown fields would change what is computed.
  void only(Names names) const;
  // Like only(), for long lists: strings of names separated by spaces.
  void only_of(std::string_view names, std::string_view more_names = {}) const;

  [[noreturn]] void refuse(std::string_view name, const std::string& accepted) const;
  // Refuses the whole object: the message is `why` after the place of the object.
  [[noreturn]] void refuse_whole(const std::string& why) const;

 private:
  [[noreturn]] void refuse_unknown(std::string_view name) const;

  simdjson::dom::object object_;
  std::string where_;
};

}  // namespace nibble
