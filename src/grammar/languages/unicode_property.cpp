#include "grammar/languages/unicode_property.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/utf8.h"

namespace nibble::grammar {
namespace {

// Returns all characters of Unicode, in order. These 4 MiB stay in memory: making them takes 8 ms, a search 3
// ms.
const std::string& all_characters() {
  static const std::string text = [] {
    std::string all;
    all.reserve(4'400'000);
    for (const CodePointRange& range : CodePoints::all().ranges())
      for (char32_t c = range.first; c <= range.last; ++c) append_utf8(all, c);
    return all;
  }();
  return text;
}

// Returns the character that ends right before `end`.
char32_t last_character(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while ((static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return first_character(text.substr(begin)).code_point;
}

std::optional<CodePoints> ask_pcre2(const std::string& name) {
  const std::string pattern = "\\p{" + name + "}+";
  int error = 0;
  PCRE2_SIZE at = 0;
  const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &at,
                    nullptr),
      &pcre2_code_free);
  if (!code) return std::nullopt;
  // Ignore a failure: matching without JIT compilation is only slower.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  if (!data) throw std::bad_alloc();
  CodePoints found;
  const std::string& text = all_characters();
  const PCRE2_SIZE* match = pcre2_get_ovector_pointer(data.get());
  for (PCRE2_SIZE from = 0; pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                        from, PCRE2_NO_UTF_CHECK, data.get(), nullptr) > 0;
       from = match[1])
    found.add(first_character(std::string_view(text).substr(match[0])).code_point,
              last_character(text, match[1]));
  return found;
}

}  // namespace

const CodePoints* unicode_property(const std::string& name, Fuel& fuel) {
  const auto is_plain = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  if (name.empty() || name.size() > 40 || !std::ranges::all_of(name, is_plain)) return nullptr;
  // PCRE2 ignores case and underscores, and so does the cache: spellings of a name must not fill memory.
  std::string key;
  for (const char c : name)
    if (c != '_') key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  static std::mutex mutex;
  static std::map<std::string, CodePoints> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return &found->second;
  fuel.spend(kPropertyFuel);
  std::optional<CodePoints> asked = ask_pcre2(name);
  return asked ? &known.emplace(key, std::move(*asked)).first->second : nullptr;
}

}  // namespace nibble::grammar
