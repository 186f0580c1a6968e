// Reads untrusted JSON field by field. A Field is a value and its path, which every error message names.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "harmony/json_text.h"

namespace nibble::harmony {

// Records which values of a document were read, so that others can be reported as ignored. An object of which
// no member was looked up counts as read: its reader took it whole (a schema) or did not need it. Values are
// identified by their address, so the document must not change.
class ReadRecord {
 public:
  bool has_looked_into(const Json& object) const { return objects_.count(&object) > 0; }
  bool has_read(const Json& member) const { return members_.count(&member) > 0; }
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  friend class Field;
  std::unordered_set<const Json*> objects_, members_;
  std::vector<std::string> left_out_;  // names: "input.web_search_call", "messages[].content.image_url"
};

class Field {
 public:
  // `record` may be null. The record and the value must outlive all fields obtained from this one.
  Field(const Json& value, std::string place, ReadRecord* record = nullptr)
      : value_(&value), place_(std::move(place)), record_(record) {}

  const Json& value() const { return *value_; }
  const std::string& place() const { return place_; }

  // Throws InputError: "messages[2].role must be one of ..., not 7", then ": REASON" if one is given.
  [[noreturn]] void refuse(std::string_view accepted, std::string_view reason = {}) const;

  // Read members of an object, and refuse any other value. A member that is null counts as absent.
  std::optional<Field> find(const char* key) const;
  Field need(const char* key, std::string_view accepted) const;
  std::optional<std::string> find_string(const char* key) const;
  std::string need_string(const char* key) const;
  void allow_only(std::initializer_list<std::string_view> keys) const;
  // Marks these members as read: they have no effect, or repeat what other members say.
  void skip(std::initializer_list<const char*> keys) const;
  // Records that this value is dropped. `type`, of a list element, is appended to its name.
  void leave_out(std::string_view type = "") const;

  std::vector<Field> elements() const;  // refuses any value but an array
  std::vector<Field> members() const;   // refuses any value but an object
  std::string string() const;
  bool boolean() const;

 private:
  void look_into() const;

  const Json* value_;
  std::string place_;
  ReadRecord* record_;
};

// A path without root and indices: "request.messages[2].content[0].text" becomes "messages[].content[].text".
std::string name_of_place(std::string_view place);

}  // namespace nibble::harmony
