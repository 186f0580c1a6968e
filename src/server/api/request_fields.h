// Decides about every field of a request, by one table for all endpoints (request_fields.cpp): obeyed;
// ignored if it would not change the text; or refused by name if it would. Fields without a row are ignored,
// and so is what readers of obeyed fields (messages, parts, tools, formats, ...) do not read. A header of the
// answer and the log name ignored fields (service.h: note_ignored); --strict refuses them.
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

// A list such as "user, reasoning_effort (low)", with each name once and a bounded number of names.
class IgnoredFields {
 public:
  void add(std::string_view name, std::string_view instead = "");
  bool empty() const { return names_.empty(); }
  const std::string& first() const { return names_.front(); }  // without the replacement
  std::string text() const;  // only characters that are safe in a header and a log line

 private:
  std::vector<std::string> names_, texts_;
  std::set<std::string> more_;
};

// Adds ignored fields to `ignored`. Throws InputError for a refused field.
void check_fields(Api api, const harmony::Field& request, IgnoredFields& ignored);

// Adds what readers did not read, at any depth: "messages[].content[].speed". Call it after all readers.
void note_unread(Api api, const harmony::Field& request, const harmony::ReadRecord& record,
                 IgnoredFields& ignored);

}  // namespace nibble::server
