// Members of records that are compared. A record may lack any of them.
#pragma once

#include <filesystem>
#include <string>

#include "core/text/json.h"

namespace nibble::cli {

struct RecordMember {
  const char* name;
  const char* pointer;  // JSON pointer to the member
};

// Returns null for a member that the record lacks; older records lack some.
inline Json value_at(const Json& record, const char* pointer) {
  const Json::json_pointer place(pointer);
  return record.contains(place) ? record.at(place) : Json();
}

inline std::string text_of(const Json& value) {
  return value.is_null() ? "not recorded" : value.is_string() ? value.get<std::string>() : value.dump();
}

// Returns the file name of the model: its folder may differ between machines.
inline std::string model_of(const Json& record) {
  return std::filesystem::path(text_of(value_at(record, "/model"))).filename().string();
}

}  // namespace nibble::cli
