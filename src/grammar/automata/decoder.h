// Turns the bytes of a text into classes of characters, as a state machine. Its states are called places:
// place 0 is between characters, and every other place is a prefix of a character. A class is a set of
// characters that no expression of the automaton distinguishes.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/automata/code_points.h"
#include "grammar/vocabulary/content.h"

namespace nibble::grammar {

enum class Encoding {
  kUtf8,
  kJsonString,      // quoted; escapes only what JSON requires, so each value has exactly one text
  kJsonStringFree,  // quoted, with any escape that JSON allows; only for expressions with one character class
  kJsonContent,     // kJsonString without quotes, so that several automata together can read one string
};
constexpr bool has_quotes(Encoding encoding) {
  return encoding == Encoding::kJsonString || encoding == Encoding::kJsonStringFree;
}

// Classes of characters: two characters are in the same class if each of `sets` contains both or neither.
class CharacterClasses {
 public:
  explicit CharacterClasses(const std::vector<CodePoints>& sets);
  size_t size() const { return representatives_.size(); }
  char32_t representative(uint32_t character_class) const { return representatives_[character_class]; }
  // Returns the class of all characters from `first` to `last`; kMixed if they have several classes.
  static constexpr uint32_t kMixed{0xFFFFFFFF};
  uint32_t class_of(char32_t first, char32_t last) const;
  ContentKinds content(uint32_t character_class) const { return content_[character_class]; }

 private:
  struct Interval {
    char32_t last;
    uint32_t character_class;
  };
  std::vector<Interval> intervals_;  // sorted; they cover all code points
  std::vector<char32_t> representatives_;
  std::vector<ContentKinds> content_;
};

class Decoder {
 public:
  // The state after a byte: illegal, inside a character, at the end of a character, or at a quote.
  enum class Kind : uint8_t { kIllegal, kPlace, kCharacter, kQuote };
  struct Step {
    uint32_t kind_and_target{0};
    static constexpr Step to(Kind kind, uint32_t target) {
      return {static_cast<uint32_t>(kind) << 30 | target};
    }
    Kind kind() const { return static_cast<Kind>(kind_and_target >> 30); }
    uint32_t target() const { return kind_and_target & 0x3FFFFFFF; }  // the place or the class
    bool operator==(const Step&) const = default;
    auto operator<=>(const Step&) const = default;
  };

  Decoder(const CharacterClasses& classes, Encoding encoding);
  Step step(uint32_t place, uint8_t byte) const { return places_[place][byte]; }
  // Classes of the characters whose first bytes lead to this place.
  const std::vector<uint32_t>& classes_at(uint32_t place) const { return classes_at_[place]; }

  size_t num_places() const { return places_.size(); }
  size_t bytes() const { return places_.size() * sizeof(Place); }

  // [byte]: class of the character that consists of this byte; kNone if there is no such character.
  static constexpr uint16_t kNone{0xFFFF};
  const std::array<uint16_t, 256>& single_bytes() const { return single_bytes_; }

 private:
  using Place = std::array<Step, 256>;

  Step add(const Place& place);
  void add_utf8(const CharacterClasses& classes, Place& root);
  Step continuation(const CharacterClasses& classes, char32_t first, int num_bytes, char32_t least);
  void add_json(const CharacterClasses& classes, Encoding encoding, Place& root);
  Step hexadecimal(const CharacterClasses& classes);

  std::vector<Place> places_;
  std::array<uint16_t, 256> single_bytes_{};
  std::vector<std::vector<uint32_t>> classes_at_;
  // Steps to places whose possible characters all have one class. Key: the step that ends a character of this
  // class, and the number of bytes that the character still lacks.
  std::map<std::pair<Step, int>, Step> uniform_;
  std::unordered_multimap<uint64_t, uint32_t> known_;  // places by hash; empty once the decoder is complete
};

}  // namespace nibble::grammar
