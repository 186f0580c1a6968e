// Says what becomes of every field of a request: one table for all endpoints (request_fields.cpp).
//
// A field is obeyed, or ignored because it changes no text, or refused by its name because it would. One that the table does not have is
// ignored too. Members inside the obeyed fields (of messages, parts, tools, formats, ...) need no rows: what their readers do not read is
// ignored. The names of ignored fields go into a header of the answer and the log (service.h: note_ignored), and with --strict such a
// request is refused.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "harmony/field.h"

namespace nibble::server {

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

// "user, reasoning_effort (low)"; each name once, and of thousands only the first.
class IgnoredFields {
 public:
  void add(std::string_view name, std::string_view instead = "");
  bool empty() const { return names_.empty(); }
  const std::string& first() const { return names_.front(); }  // without what was done instead
  std::string text() const;  // letters that can stand in a header and a line of the log

 private:
  std::vector<std::string> names_, texts_;
  std::set<std::string> more_;
};

// Throws InputError for a field that is refused.
void check_fields(Api api, const harmony::Field& request, IgnoredFields& ignored);

// Names what the readers of the obeyed fields have left out or not read, at any depth: "messages[].content[].speed". Called when the whole
// request has been read with this record.
void note_unread(Api api, const harmony::Field& request, const harmony::ReadRecord& record,
                 IgnoredFields& ignored);

}  // namespace nibble::server
