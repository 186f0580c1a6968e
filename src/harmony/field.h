// Reads untrusted JSON field by field. A Field is a value and its path, which every error message names.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "harmony/json_text.h"

namespace nibble::harmony {

// Records which values of a document were read, so that the others can be reported as ignored. An object
// without any looked-up member counts as read: its reader took it whole (a schema) or did not need it. Values
// are identified by their address, so the document must not change.
class ReadRecord {
 public:
  bool has_looked_into(const Json& object) const { return objects_.count(&object) > 0; }
  bool has_read(const Json& member) const { return members_.count(&member) > 0; }
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  friend class Field;
  std::unordered_set<const Json*> objects_, members_;
  std::vector<std::string> left_out_;  // names, such as "messages[].content.image_url"
};

class Field {
 public:
  // `record` may be null. The value and the record must outlive this field and all fields obtained from it.
  Field(const Json& value, std::string place, ReadRecord* record = nullptr)
      : value_(&value), place_(std::move(place)), record_(record) {}

  const Json& value() const { return *value_; }
  const std::string& place() const { return place_; }

  // Throws InputError: "messages[2].role must be one of ..., not 7", then ": REASON" if it is not empty.
  [[noreturn]] void refuse(std::string_view accepted, std::string_view reason = {}) const;

  // The next functions read members of an object and refuse any other value. A null member counts as absent.
  std::optional<Field> find(const char* key) const;
  Field need(const char* key, std::string_view accepted) const;
  std::optional<std::string> find_string(const char* key) const;
  std::string need_string(const char* key) const;
  void allow_only(std::initializer_list<std::string_view> keys) const;
  // Marks these members as read. Used for members that have no effect or that repeat other members.
  void skip(std::initializer_list<const char*> keys) const;
  // Records that this value is dropped. For a list element, `type` is appended to the recorded name.
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

// Shortens a path to a name: "request.messages[2].content[0].text" becomes "messages[].content[].text".
std::string name_of_place(std::string_view place);

}  // namespace nibble::harmony
