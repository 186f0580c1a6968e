// A deterministic automaton over bytes, built lazily: a state is added when a text first reaches it. A state
// combines a row and a place. The row is the regular expression that the rest of the text must match; it
// changes after each character, depending on the character's class. The place is the decoder's state inside a
// character (decoder.h). Every state except kDead can reach an accepting state.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/automata/decoder.h"
#include "grammar/automata/expressions.h"
#include "grammar/automata/liveness.h"
#include "grammar/automata/remaining_lengths.h"

namespace nibble::grammar {

// The decoder from bytes to classes of characters, for a list of character sets. Automata can share one.
struct Alphabet {
  Alphabet(const std::vector<CodePoints>& sets, Encoding encoding)
      : classes(sets), decoder(classes, encoding) {}
  CharacterClasses classes;
  Decoder decoder;
};

class Automaton {
 public:
  static constexpr uint32_t kDead{0}, kStart{1};

  // `expressions` and `memory` must outlive this object. `memory` is the grammar's total in bytes: the
  // automaton adds the bytes that it takes, now and whenever it grows.
  Automaton(Expressions& expressions, Expression root, Encoding encoding,
            std::shared_ptr<const Alphabet> alphabet, size_t& memory);
  Automaton(const Automaton&) = delete;
  Automaton& operator=(const Automaton&) = delete;

  uint32_t next(uint32_t state, uint8_t byte) {
    if (state < first_text_state_) return next_of_special(state, byte);
    const uint32_t row = row_of(state);
    if (const uint16_t single = single_bytes_[byte]; state == row && single != Decoder::kNone) {
      const uint32_t known = transitions_[row * num_classes_ + single];
      return known != kUnknown ? known : make_transition(row, single);
    }
    const Decoder::Step step = alphabet_->decoder.step(state >> kRowBits, byte);
    switch (step.kind()) {
      case Decoder::Kind::kIllegal:
        return kDead;
      case Decoder::Kind::kCharacter: {
        const uint32_t known = transitions_[row * num_classes_ + step.target()];
        return known != kUnknown ? known : make_transition(row, step.target());
      }
      case Decoder::Kind::kPlace:
        return can_complete(row, step.target()) ? row | step.target() << kRowBits : kDead;
      case Decoder::Kind::kQuote:
        return rows_[row].accepts_text ? kClosed : kDead;
    }
    return kDead;
  }
  bool accepts(uint32_t state) const {
    return state < first_text_state_
               ? state == kClosed
               : !has_quotes(encoding_) && state <= kRowMask && rows_[state].accepts_text;
  }
  // Whether no further byte is legal in this state.
  bool is_final(uint32_t state) const {
    return state < first_text_state_ ? state != kStart
                                     : !has_quotes(encoding_) && state <= kRowMask &&
                                           rows_[state].expression == Expression::kEmptyText;
  }
  // Whether the state is between two characters of the text (for a JSON string: inside the quotes).
  bool is_between_characters(uint32_t state) const { return state >= first_text_state_ && state <= kRowMask; }
  // Returns, for each content set (vocabulary/content.h), the length up to which every text of that set may
  // follow `state`; 0 inside a character.
  const ContentRuns& content_runs(uint32_t state);
  bool is_empty() { return !is_live(root_); }

  Encoding encoding() const { return encoding_; }
  const CharacterClasses& classes() const { return alphabet_->classes; }
  // Returns the possible classes of the unfinished character in a state. The state must be inside a
  // character.
  const std::vector<uint32_t>& classes_at(uint32_t state) const {
    return alphabet_->decoder.classes_at(state >> kRowBits);
  }
  // Returns the state after a character of this class. `state` must be between characters.
  uint32_t next_class(uint32_t state, uint32_t character_class) {
    const uint32_t known = transitions_[row_of(state) * num_classes_ + character_class];
    return known != kUnknown ? known : make_transition(row_of(state), character_class);
  }
  // Whether the expression, a derivative of the root, matches any text.
  bool is_live(Expression expression) { return liveness_.is_live(expression); }

  // Returns the lengths that texts may still have, for every expression. The first call may throw InputError.
  const RemainingLengths& lengths();
  // Whether a text can end after `min` to `max` more characters. The state must be between characters.
  bool can_end(uint32_t state, uint32_t min, uint32_t max);

 private:
  // Layout of a state: its row in the low bits, its place in the decoder in the high bits.
  static constexpr uint32_t kRowBits{18}, kRowMask{(1u << kRowBits) - 1};
  static constexpr uint32_t kClosed{2};  // after the closing quote of a JSON string
  static constexpr uint32_t kUnknown{0xFFFFFFFF};
  static_assert(kMaxExpressions < kRowMask);
  struct Row {
    Expression expression;
    bool accepts_text;
    // The row's texts have every length from this one on, and none is shorter. kUnlimited: no such length
    // exists, or it is unknown.
    uint32_t ends_from{kUnlimited};
  };

  static uint32_t row_of(uint32_t state) { return state & kRowMask; }
  uint32_t next_of_special(uint32_t state, uint8_t byte);
  uint32_t make_transition(uint32_t row, uint32_t character_class);
  // Whether the row allows a character that starts with the bytes that lead to `place`.
  bool can_complete(uint32_t row, uint32_t place);
  uint32_t add(Expression expression);
  void find_run(Expression start, size_t set, ContentRuns& runs);

  Expressions& expressions_;
  Expression root_;
  Encoding encoding_;
  std::shared_ptr<const Alphabet> alphabet_;
  Liveness liveness_;
  size_t& memory_;
  size_t num_classes_;
  const uint16_t* single_bytes_;
  uint32_t first_text_state_;
  std::vector<Row> rows_;
  std::vector<uint32_t> transitions_;                       // [row, character class]: next row, or kUnknown
  std::unordered_map<uint32_t, uint32_t> known_;            // row of each expression, by its id
  std::unordered_map<uint32_t, ContentRuns> content_runs_;  // results of content_runs(), by state
  std::unique_ptr<RemainingLengths> lengths_;               // null until lengths() is called
};

}  // namespace nibble::grammar
