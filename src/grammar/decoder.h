// From bytes to classes of characters: the first half of every automaton over bytes. The characters that an expression tells apart
// become classes, and a small table for each place inside a character says which byte leads where. Two encodings:
//
//   kUtf8         the text itself
//   kJsonString   a JSON text's string, with its quotes, that stands for a text: a character may be written as an escape. Which
//                 escapes are allowed is a question of taste, as each stands for one character only.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "grammar/code_points.h"

namespace nibble::grammar {

enum class Encoding {
  kUtf8,
  kJsonString,      // escapes only where JSON needs them, so that a text is written in one way
  kJsonStringFree,  // any escape; for an expression that tells no characters apart
};

// The characters in classes: two are in one class if they are in the same ones of `sets`.
class CharacterClasses {
 public:
  explicit CharacterClasses(const std::vector<CodePoints>& sets);
  size_t size() const { return representatives_.size(); }
  char32_t representative(uint32_t character_class) const { return representatives_[character_class]; }
  // The class of all characters from `first` to `last`, or kMixed.
  static constexpr uint32_t kMixed{0xFFFFFFFF};
  uint32_t class_of(char32_t first, char32_t last) const;
  // Whether a text of whole characters that no JSON string escapes (and no DEL) can have one of the class.
  bool is_content(uint32_t character_class) const { return is_content_[character_class]; }

 private:
  struct Interval {
    char32_t last;
    uint32_t character_class;
  };
  std::vector<Interval> intervals_;  // from 0 to the last code point without gaps
  std::vector<char32_t> representatives_;
  std::vector<bool> is_content_;
};

class Decoder {
 public:
  // Where a byte leads: to a place inside a character (0: between characters), or to the end of one, of some class.
  enum class Kind : uint8_t { kIllegal, kPlace, kCharacter, kQuote };
  struct Step {
    Kind kind{Kind::kIllegal};
    uint32_t target{0};  // the place, or the class
    auto operator<=>(const Step&) const = default;
  };

  Decoder(const CharacterClasses& classes, Encoding encoding);
  Step step(uint32_t place, uint8_t byte) const { return places_[place][byte]; }
  // The classes of the characters that one may be in the middle of.
  const std::vector<uint32_t>& classes_at(uint32_t place) const { return classes_at_[place]; }

  // Bytes that no place tells apart are one group.
  size_t num_byte_groups() const { return representative_bytes_.size(); }
  const std::array<uint8_t, 256>& byte_groups() const { return byte_groups_; }
  uint8_t representative_byte(size_t group) const { return representative_bytes_[group]; }

 private:
  using Place = std::array<Step, 256>;

  Step add(const Place& place);
  Step character(const CharacterClasses& classes, char32_t first, char32_t last) const;
  void add_utf8(const CharacterClasses& classes, Place& root);
  Step continuation(const CharacterClasses& classes, char32_t first, int num_bytes, char32_t least);
  void add_json(const CharacterClasses& classes, bool is_free, Place& root);
  Step hexadecimal(const CharacterClasses& classes);
  void group_bytes();

  std::vector<Place> places_;
  std::vector<std::vector<uint32_t>> classes_at_;
  std::map<Place, uint32_t> known_;
  std::array<uint8_t, 256> byte_groups_{};
  std::vector<uint8_t> representative_bytes_;
};

}  // namespace nibble::grammar
