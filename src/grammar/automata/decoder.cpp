#include "grammar/automata/decoder.h"

#include <algorithm>

#include "core/errors/check.h"
#include "grammar/limits.h"

namespace nibble::grammar {

Decoder::Decoder(const CharacterClasses& classes, Encoding encoding) {
  places_.emplace_back();  // place 0, between characters; its steps are filled in below
  classes_at_.emplace_back();
  Place root{};
  add_utf8(classes, root);
  if (encoding != Encoding::kUtf8) add_json(classes, encoding, root);
  places_[0] = root;
  single_bytes_.fill(kNone);
  for (size_t byte = 0; byte < 256; ++byte)
    if (root[byte].kind() == Kind::kCharacter && root[byte].target() < kNone)
      single_bytes_[byte] = static_cast<uint16_t>(root[byte].target());
  known_.clear();
}

// Adds the place unless an equal one exists, and returns the step that leads to it.
Decoder::Step Decoder::add(const Place& place) {
  uint64_t hash = 0;
  for (const Step step : place) hash = (hash ^ step.kind_and_target) * 0x9E3779B97F4A7C15u;
  const auto [begin, end] = known_.equal_range(hash);
  for (auto known = begin; known != end; ++known)
    if (places_[known->second] == place) return Step::to(Kind::kPlace, known->second);
  std::vector<uint32_t> reachable;
  Step before;
  for (const Step step : place) {
    if (step == before) continue;
    before = step;
    if (step.kind() == Kind::kCharacter) reachable.push_back(step.target());
    if (step.kind() == Kind::kPlace)
      reachable.insert(reachable.end(), classes_at_[step.target()].begin(), classes_at_[step.target()].end());
  }
  std::ranges::sort(reachable);
  reachable.erase(std::unique(reachable.begin(), reachable.end()), reachable.end());
  known_.emplace(hash, to_index(places_.size()));
  places_.push_back(place);
  classes_at_.push_back(std::move(reachable));
  return Step::to(Kind::kPlace, to_index(places_.size() - 1));
}

// Returns the step into a UTF-8 character with `num_bytes` missing bytes. `first`: its smallest possible code
// point. Surrogates and code points below `least` (overlong forms) are illegal.
Decoder::Step Decoder::continuation(const CharacterClasses& classes, char32_t first, int num_bytes,
                                    char32_t least) {
  const char32_t each = char32_t{1} << (6 * (num_bytes - 1));  // code points per value of the next byte
  Place place{};
  Step uniform;
  if (const uint32_t known =
          classes.class_of(first, std::min<char32_t>(first + 64 * each - 1, kLastCodePoint));
      known != CharacterClasses::kMixed)
    uniform = Step::to(Kind::kCharacter, known);
  // The characters of most prefixes all have one class. Prefixes with the same class and number of missing
  // bytes share a place (uniform_).
  const bool is_whole =
      first >= least && first + 64 * each - 1 <= kLastCodePoint && (first < 0xD000 || first > 0xDFFF);
  const std::pair key{uniform, num_bytes};
  if (is_whole && uniform.kind() == Kind::kCharacter)
    if (const auto known = uniform_.find(key); known != uniform_.end()) return known->second;
  for (uint32_t value = 0; value < 64; ++value) {
    const char32_t begin = first + value * each;
    if (begin < least || begin > kLastCodePoint || (begin >= 0xD800 && begin <= 0xDFFF)) continue;
    Step& step = place[0x80 + value];
    if (num_bytes == 1) {
      step = uniform.kind() == Kind::kCharacter ? uniform
                                                : Step::to(Kind::kCharacter, classes.class_of(begin, begin));
    } else if (uniform.kind() == Kind::kCharacter && value > 0 &&
               place[0x80 + value - 1].kind() == Kind::kPlace) {
      step = place[0x80 + value - 1];  // single class: same place as for the previous value
    } else {
      step = continuation(classes, begin, num_bytes - 1, least);
    }
  }
  const Step made = add(place);
  if (is_whole && uniform.kind() == Kind::kCharacter) uniform_.emplace(key, made);
  return made;
}

void Decoder::add_utf8(const CharacterClasses& classes, Place& root) {
  for (uint32_t byte = 0; byte < 0x80; ++byte)
    root[byte] = Step::to(Kind::kCharacter, classes.class_of(byte, byte));
  for (uint32_t byte = 0xC2; byte <= 0xDF; ++byte)
    root[byte] = continuation(classes, (byte & 0x1F) << 6, 1, 0x80);
  for (uint32_t byte = 0xE0; byte <= 0xEF; ++byte)
    root[byte] = continuation(classes, (byte & 0x0F) << 12, 2, 0x800);
  for (uint32_t byte = 0xF0; byte <= 0xF4; ++byte)
    root[byte] = continuation(classes, (byte & 0x07) << 18, 3, 0x10000);
}

void Decoder::add_json(const CharacterClasses& classes, Encoding encoding, Place& root) {
  const auto one = [&](char32_t c) { return Step::to(Kind::kCharacter, classes.class_of(c, c)); };
  Place escape{};
  constexpr struct {
    char letter;
    char32_t meaning;
  } kShort[]{{'"', '"'}, {'\\', '\\'}, {'b', '\b'}, {'f', '\f'}, {'n', '\n'}, {'r', '\r'}, {'t', '\t'}};
  for (const auto& [letter, meaning] : kShort) escape[static_cast<uint8_t>(letter)] = one(meaning);
  if (encoding == Encoding::kJsonStringFree) {
    escape['/'] = one('/');
    escape['u'] = hexadecimal(classes);
  } else {
    // Control characters that have no short escape such as \n are written as \u00xx, with the lower-case
    // digits that JSON writers use.
    Place low[2]{}, third{}, second{}, first{};
    for (uint32_t c = 0; c < 0x20; ++c)
      if (std::ranges::none_of(kShort, [&](const auto& known) { return known.meaning == c; }))
        low[c / 16][static_cast<uint8_t>("0123456789abcdef"[c % 16])] = one(c);
    third['0'] = add(low[0]);
    third['1'] = add(low[1]);
    second['0'] = add(third);
    first['0'] = add(second);
    escape['u'] = add(first);
  }
  for (uint32_t byte = 0; byte < 0x20; ++byte) root[byte] = {};
  root['\\'] = add(escape);
  root['"'] = has_quotes(encoding) ? Step::to(Kind::kQuote, 0) : Step{};
}

// Returns the step after "\u": the four hexadecimal digits of a character follow, or a surrogate pair (two
// times four digits, with a second "\u" between them). `classes` must have exactly one class, because the
// value of the digits is not decoded.
Decoder::Step Decoder::hexadecimal(const CharacterClasses& classes) {
  NIBBLE_CHECK(classes.size() == 1);
  constexpr std::string_view kDigits{"0123456789abcdefABCDEF"};
  const auto place = [&](std::string_view bytes, Step step) {
    Place made{};
    for (const char byte : bytes) made[static_cast<uint8_t>(byte)] = step;
    return made;
  };
  const Step end = Step::to(Kind::kCharacter, 0);
  const Step last = add(place(kDigits, end)), last_two = add(place(kDigits, last)),
             last_three = add(place(kDigits, last_two));
  const Step low_third = add(place("cdefCDEF", last_two));  // \uDC00 to \uDFFF
  const Step low_escape = add(place("\\", add(place("u", add(place("dD", low_third))))));
  const Step high_last = add(place(kDigits, low_escape)), high_third = add(place(kDigits, high_last));
  Place behind_d = place("01234567", last_two), first = place("0123456789abcefABCEF", last_three);
  for (const char byte : std::string_view("89abAB")) behind_d[static_cast<uint8_t>(byte)] = high_third;
  first['d'] = first['D'] = add(behind_d);
  return add(first);
}

}  // namespace nibble::grammar
