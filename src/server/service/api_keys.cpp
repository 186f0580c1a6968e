#include "server/service/api_keys.h"

#include <algorithm>

#include "core/errors/error.h"

namespace nibble::server {
namespace {

constexpr size_t kMaxNameLetters{64};
constexpr std::string_view kBlanks{" \t\r"};

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// Whether `name` has the form of names that nibble generates, such as "key-7".
bool is_given_by_nibble(std::string_view name) {
  constexpr std::string_view kBeginning{"key-"};
  return name.starts_with(kBeginning) && name.size() > kBeginning.size() &&
         name.find_first_not_of("0123456789", kBeginning.size()) == std::string_view::npos;
}

void check_name(std::string_view name, std::string_view where) {
  const bool is_plain =
      !name.empty() && name.size() <= kMaxNameLetters &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@") ==
          std::string_view::npos;
  if (!is_plain)
    throw InputError(
        "{}: the text before ':' is not a valid key name (1 to {} letters, digits and '-_.@'). A key that "
        "contains ':' needs a name before it",
        where, kMaxNameLetters);
  if (is_given_by_nibble(name))
    throw InputError("{}: the name '{}' is reserved for keys without a name", where, name);
}

bool is_sendable(std::string_view key) {  // whether an HTTP header can carry the key
  return std::ranges::all_of(key, [](char letter) { return letter >= ' ' && letter <= '~'; });
}

bool is_equal(std::string_view one, std::string_view other) {
  unsigned difference = one.size() != other.size();
  for (size_t i = 0; i < one.size(); ++i)
    difference |= static_cast<unsigned char>(one[i]) ^
                  (i < other.size() ? static_cast<unsigned char>(other[i]) : 0x100u);
  return difference == 0;
}

}  // namespace

void ApiKeys::add(std::string_view text, std::string_view where) {
  const std::string_view line = trimmed(text);
  const size_t colon = line.find(':');
  const bool has_name = colon != std::string_view::npos;
  const std::string_view name = has_name ? line.substr(0, colon) : std::string_view();
  const std::string_view key = has_name ? trimmed(line.substr(colon + 1)) : line;
  if (has_name) check_name(name, where);
  if (key.empty()) throw InputError("{}: the key is empty", where);
  if (!is_sendable(key))
    throw InputError("{}: the key has a character that is not printable ASCII; no client can send it", where);
  if (key.find(" #") != std::string_view::npos)  // a comment would become part of the key
    throw InputError("{}: the key contains ' #'; put comments on a line of their own", where);
  if (const ApiKey* known = find(key)) {
    if (!has_name || known->name == name) return;
    throw InputError("{}: the key of '{}' is already used by '{}'", where, name, known->name);
  }
  ApiKey added{.key = std::string(key), .name = std::string(name), .owner = std::string(name)};
  if (!has_name) {
    added.name = fmt::format("key-{}", keys_.size() + 1);
    added.owner = fmt::format(":{}", key);  // Starts with a colon, so it differs from every name.
  }
  keys_.push_back(std::move(added));
}

void ApiKeys::add_lines(std::string_view text, std::string_view file) {
  bool has_key = false;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.empty() || content.starts_with('#')) continue;
    add(content, fmt::format("--api-key-file '{}', line {}", file, line));
    has_key = true;
  }
  if (!has_key)
    throw InputError(
        "--api-key-file '{}' has no key. Expected one per line, as KEY or NAME:KEY; lines that begin with "
        "'#' are comments",
        file);
}

std::vector<std::string> ApiKeys::names() const {
  std::vector<std::string> names;
  for (const ApiKey& key : keys_) names.push_back(key.name);
  return names;
}

const ApiKey* ApiKeys::find(std::string_view key) const {
  const ApiKey* found = nullptr;
  for (const ApiKey& known : keys_)
    if (is_equal(known.key, key)) found = &known;
  return found;
}

}  // namespace nibble::server
