#include "harmony/json_text.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "core/error.h"

namespace nibble::harmony {

namespace {

constexpr int kMaxDepth{128};  // the official library's limit; code that walks a value recurses
constexpr size_t kMaxMembers{
    10'000};  // per object, because inserting a key into an ordered object searches it linearly

// Writes a double as Rust does: the shortest digits that read back as the same number, without exponent between 1e-5 and
// 1e16, else with an exponent that has neither plus nor leading zeros.
std::string number_text(double value) {
  char buffer[64];
  const auto print = [&](std::chars_format format) {
    const auto [last, error] = std::to_chars(buffer, buffer + sizeof(buffer), value, format);
    return std::string(buffer, last);
  };
  const std::string scientific = print(std::chars_format::scientific);  // "1.5e-07"
  const size_t e = scientific.find('e');
  const int exponent = std::atoi(scientific.c_str() + e + 1);
  if (value != 0 && (exponent < -5 || exponent > 15))
    return scientific.substr(0, e) + 'e' + std::to_string(exponent);
  std::string plain = print(std::chars_format::fixed);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

void write(const Json& value, JsonSpacing spacing, std::string& out) {
  const bool spaced = spacing == JsonSpacing::kAfterCommas;
  const char* separator = "";
  if (value.is_object()) {
    out += '{';
    for (const auto& [key, member] : value.items()) {
      out += separator;
      out += Json(key).dump();
      out += spaced ? ": " : ":";
      write(member, spacing, out);
      separator = spaced ? ", " : ",";
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (const Json& element : value) {
      out += separator;
      write(element, spacing, out);
      separator = spaced ? ", " : ",";
    }
    out += ']';
  } else if (value.is_number_float()) {
    out += number_text(value.get<double>());
  } else {
    out += value.dump();
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  std::vector<size_t> num_members;  // so far, of each open object or array
  const auto bound = [&](int, Json::parse_event_t event, const Json&) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (num_members.size() == kMaxDepth)
        throw InputError("{} is nested more than {} deep", what, kMaxDepth);
      num_members.push_back(0);
    } else if (event == Event::object_end || event == Event::array_end) {
      num_members.pop_back();
    } else if (event == Event::key && ++num_members.back() > kMaxMembers) {
      throw InputError("{} has an object of more than {} members", what, kMaxMembers);
    }
    return true;
  };
  try {
    return Json::parse(text, bound);
  } catch (const Json::exception& error) {  // "[json.exception.parse_error.101] parse error at line 1, ..."
    const std::string_view message = error.what();
    const size_t end_of_tag = message.find("] ");
    throw InputError("{} is no JSON: {}", what,
                     end_of_tag == std::string_view::npos ? message : message.substr(end_of_tag + 2));
  }
}

std::string json_line(const Json& value, JsonSpacing spacing) {
  std::string out;
  write(value, spacing, out);
  return out;
}

}  // namespace nibble::harmony
