// Log lines go to stderr, so that stdout stays what a command answers. A library of others does the work.
#pragma once

#include <spdlog/spdlog.h>

#include <initializer_list>
#include <string_view>
#include <variant>

namespace nibble::log {

using spdlog::debug;
using spdlog::info;
using spdlog::warn;

enum class Format {
  kText,  // I what happened
  kJson,  // {"time": "2026-11-21T10:41:37.123Z", "level": "info", "message": "what happened"}
};

// Sends everything to stderr, `level` and above. Called once, by main.
void start(spdlog::level::level_enum level, Format format);

struct Field {
  std::string_view name;
  std::variant<std::string_view, int, double> value;
};
// A line of the level info that machines count: the text or, as JSON, the fields in the place of the message.
void record(std::string_view text, std::initializer_list<Field> fields);

}  // namespace nibble::log
