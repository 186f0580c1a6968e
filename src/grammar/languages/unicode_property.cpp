#include "grammar/languages/unicode_property.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/utf8.h"

namespace nibble::grammar {
namespace {

std::optional<CodePoints> ask_pcre2(const std::string& name) {
  const std::string pattern = "\\p{" + name + "}+";
  int error = 0;
  PCRE2_SIZE at = 0;
  const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &at,
                    nullptr),
      &pcre2_code_free);
  if (!code) return std::nullopt;
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where it can't be, matching is slower
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  if (!data) throw std::bad_alloc();
  CodePoints found;
  constexpr char32_t kBlock{0x10000};
  for (char32_t block = 0; block <= kLastCodePoint; block += kBlock) {
    std::string text;
    std::vector<uint32_t> places;  // of each character, and the end
    std::vector<char32_t> characters;
    for (char32_t c = block; c < block + kBlock; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      places.push_back(static_cast<uint32_t>(text.size()));
      characters.push_back(c);
      append_utf8(text, c);
    }
    places.push_back(static_cast<uint32_t>(text.size()));
    const PCRE2_SIZE* match = pcre2_get_ovector_pointer(data.get());
    for (PCRE2_SIZE from = 0; pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                          from, PCRE2_NO_UTF_CHECK, data.get(), nullptr) > 0;
         from = match[1]) {
      const auto first = std::lower_bound(places.begin(), places.end(), match[0]) - places.begin();
      const auto end = std::lower_bound(places.begin(), places.end(), match[1]) - places.begin();
      found.add(characters[static_cast<size_t>(first)], characters[static_cast<size_t>(end - 1)]);
    }
  }
  return found;
}

}  // namespace

const CodePoints* unicode_property(const std::string& name) {
  const auto is_plain = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  if (name.empty() || name.size() > 40 || !std::all_of(name.begin(), name.end(), is_plain)) return nullptr;
  static std::mutex mutex;
  static std::map<std::string, CodePoints> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(name); found != known.end()) return &found->second;
  std::optional<CodePoints> asked = ask_pcre2(name);
  return asked ? &known.emplace(name, std::move(*asked)).first->second : nullptr;
}

}  // namespace nibble::grammar
