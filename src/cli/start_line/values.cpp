#include "cli/start_line/values.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <charconv>
#include <utility>

#include "core/text/json.h"
#include "core/text/json_text.h"
#include "core/text/take_until.h"

namespace nibble::cli {
namespace {

using nlohmann::json;

json parsed(const std::string& text) { return json::parse(text, nullptr, /*allow_exceptions=*/false); }

int64_t factor_of(char unit) {  // 0 for unknown letters
  switch (unit) {
    case 'k':
      return 1'000;
    case 'K':
      return 1 << 10;
    case 'm':
      return 1'000'000;
    case 'M':
      return 1 << 20;
  }
  return 0;
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty())
    if (const std::string_view part = take_until(text, separator); !part.empty()) parts.emplace_back(part);
  return parts;
}

bool matches_one(std::string_view patterns, const std::string& value) {
  for (const std::string& pattern : split(patterns, '|'))
    if (fnmatch(pattern.c_str(), value.c_str(), FNM_CASEFOLD) == 0) return true;
  return false;
}

std::string plain_count(const std::string& text) {
  const int64_t factor = text.empty() ? 0 : factor_of(text.back());
  double number = 0;
  const char* const unit = text.data() + text.size() - (factor > 0 ? 1 : 0);
  const auto [end, error] = std::from_chars(text.data(), unit, number);
  if (factor == 0 || error != std::errc{} || end != unit || !(number >= 0 && number < 1e6)) return text;
  return fmt::to_string(static_cast<int64_t>(number * static_cast<double>(factor)));
}

std::vector<std::string> list_of(const std::string& text) {
  const json list = parsed(text);
  if (!list.is_array()) return split(text, ',');
  std::vector<std::string> texts;
  for (const json& element : list)
    texts.push_back(element.is_string() ? element.get<std::string>() : json_text(element));
  return texts;
}

std::string compact_json(const std::string& text) {
  const json object = parsed(text);
  return object.is_object() ? json_text(object) : text;
}

json json_at(std::string_view path, const std::string& value) {
  json object = parsed(value);
  if (object.is_discarded()) object = value;
  const std::vector<std::string> keys = split(path, '.');
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    json parent = json::object();
    parent[*key] = std::move(object);
    object = std::move(parent);
  }
  return object;
}

}  // namespace nibble::cli
