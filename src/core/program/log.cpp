#include "core/program/log.h"

#include <fmt/chrono.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <chrono>
#include <memory>

#include "core/text/json.h"
#include "core/text/json_text.h"

namespace nibble::log {
namespace {

constexpr std::string_view kRecords{"nibble.record"};  // messages of this logger are members of a JSON object

// Returns `text` as a JSON string. Bytes that are not UTF-8 become U+FFFD.
std::string quoted(std::string_view text) { return json_text(nlohmann::json(text)); }

class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    using namespace std::chrono;
    const auto milliseconds =
        duration_cast<std::chrono::milliseconds>(message.time.time_since_epoch()).count();
    const std::string_view said(message.payload.data(), message.payload.size());
    const auto level = spdlog::level::to_string_view(message.level);
    const std::string_view logger(message.logger_name.data(), message.logger_name.size());
    fmt::format_to(std::back_inserter(line), R"({{"time":"{:%Y-%m-%dT%H:%M:%S}.{:03}Z","level":"{}",{}}}{})",
                   fmt::gmtime(spdlog::log_clock::to_time_t(message.time)), milliseconds % 1000,
                   std::string_view(level.data(), level.size()),
                   logger == kRecords ? std::string(said) : "\"message\":" + quoted(said), "\n");
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

std::shared_ptr<spdlog::logger> records;  // the logger named kRecords; null with Format::kText

}  // namespace

void start(spdlog::level::level_enum level, Format format) {
  const auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("nibble", sink);
  if (format == Format::kJson) {
    records = std::make_shared<spdlog::logger>(std::string(kRecords), sink);
    records->set_level(level);
    sink->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    sink->set_formatter(std::make_unique<spdlog::pattern_formatter>("%^%L%$ %Y-%m-%dT%H:%M:%S.%eZ %v",
                                                                    spdlog::pattern_time_type::utc));
  }
  logger->set_level(level);
  spdlog::set_default_logger(std::move(logger));
}

void record(std::string_view text, std::span<const Field> fields) {
  if (!records) {
    info("{}", text);
    return;
  }
  std::string members;
  for (const Field& field : fields) {
    members += fmt::format("{}{}:", members.empty() ? "" : ",", quoted(field.name));
    if (const auto* word = std::get_if<std::string_view>(&field.value))
      members += quoted(*word);
    else if (const auto* count = std::get_if<int>(&field.value))
      members += fmt::to_string(*count);
    else
      members += fmt::format("{:.3f}", std::get<double>(field.value));
  }
  records->info("{}", members);
}

std::string words(std::span<const Field> fields) {
  std::string text;
  for (const Field& field : fields) {
    if (const auto* word = std::get_if<std::string_view>(&field.value))
      text += fmt::format(" {}={}", field.name, *word);
    else if (const auto* count = std::get_if<int>(&field.value))
      text += fmt::format(" {}={}", field.name, *count);
    else
      text += fmt::format(" {}={:.1f}", field.name, std::get<double>(field.value));
  }
  return text;
}

}  // namespace nibble::log
