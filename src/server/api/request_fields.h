// One table for all endpoints (request_fields.cpp) decides what happens to each field of a request. A field
// is obeyed; ignored, if it would not change the answer's text; or refused with an error that names it.
// Unknown fields are ignored, and so are nested members that no code reads. A header of the answer and the
// log list the ignored fields; --strict refuses them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "harmony/field.h"

namespace nibble::server {

using harmony::Field;

enum class Api : uint8_t {
  kChat = 1,
  kCompletions = 2,
  kResponses = 4,
  kTokenize = 8,
  kAnthropic = 16,
  kOllama = 32,
  kOllamaShow = 64,
  kDetokenize = 128,
};

// Names of ignored fields, such as "user, reasoning_effort (low)", without duplicates and limited in number.
class IgnoredFields {
 public:
  void add(std::string_view name, std::string_view instead = "");
  bool empty() const { return names_.empty(); }
  // Returns the first name, without a note such as " (low)".
  const std::string& first() const { return names_.front(); }
  std::string text() const;  // the names in one line, in characters that are safe in headers and logs

 private:
  std::vector<std::string> names_, texts_;
  std::set<std::string> more_;
};

// Adds ignored fields to `ignored`. Throws InputError for a refused field.
void check_fields(Api api, const Field& request, IgnoredFields& ignored);

// Adds members that no reader has read, such as "messages[].content[].speed". Call it after all readers.
void note_unread(Api api, const Field& request, const harmony::ReadRecord& record, IgnoredFields& ignored);

}  // namespace nibble::server
