// Log lines, written with spdlog to stderr: stdout holds only the output of the command.
#pragma once

#include <spdlog/spdlog.h>

#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace nibble::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

enum class Format {
  kText,  // I 2026-11-21T10:41:37.123Z what happened
  kJson,  // {"time": "2026-11-21T10:41:37.123Z", "level": "info", "message": "what happened"}
};

// Logs messages of `level` and above from now on. Called once, by main.
void start(spdlog::level::level_enum level, Format format);

struct Field {
  std::string_view name;
  std::variant<std::string_view, int, double> value;
};
// Logs an event at level info: as `text`, or as the members `fields` of the JSON line (Format::kJson).
void record(std::string_view text, std::span<const Field> fields);
// Formats fields for the `text` of record(): " name=value name=value".
std::string words(std::span<const Field> fields);

}  // namespace nibble::log
