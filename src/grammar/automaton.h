// A deterministic automaton over bytes whose states are made when they are first reached. A state is an expression (what the rest of the
// text may be) and a place inside a character. Every state but kDead can still come to an end, so that a text that has not failed yet
// need never fail.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/decoder.h"
#include "grammar/expressions.h"

namespace nibble::grammar {

// Classes and decoder of a set of character sets; automata share it where they tell the same characters apart.
struct Alphabet {
  Alphabet(const std::vector<CodePoints>& sets, Encoding encoding)
      : classes(sets), decoder(classes, encoding) {}
  CharacterClasses classes;
  Decoder decoder;
};

class Automaton {
 public:
  static constexpr uint32_t kDead{0}, kStart{1};

  // `expressions` must outlive it. `memory` counts the bytes of all automata of a grammar.
  Automaton(Expressions& expressions, Expression root, Encoding encoding,
            std::shared_ptr<const Alphabet> alphabet, size_t& memory);

  uint32_t next(uint32_t state, uint8_t byte) {
    const uint32_t known = transitions_[state * num_groups_ + groups_[byte]];
    return known != kUnknown ? known : make_transition(state, byte);
  }
  bool accepts(uint32_t state) const { return states_[state].accepts; }
  // Whether no byte can follow.
  bool is_final(uint32_t state) const { return states_[state].is_final; }
  // Between two characters of the text that is described; in a JSON string, between its quotes.
  bool is_between_characters(uint32_t state) const { return states_[state].is_between; }
  // What texts of content may follow; none inside a character.
  const ContentRuns& content_runs(uint32_t state);
  // Whether any text at all is accepted.
  bool is_empty() { return !is_live(root_); }

  Encoding encoding() const { return encoding_; }
  Expression expression(uint32_t state) const { return states_[state].expression; }
  // Inside a character: the classes that it may turn out to have. Their derivatives say how the text may go on.
  const std::vector<uint32_t>& classes_at(uint32_t state) const {
    return alphabet_->decoder.classes_at(states_[state].place);
  }
  const CharacterClasses& classes() const { return alphabet_->classes; }
  // Whether the expression, a derivative of the root's, has any text.
  bool is_live(Expression expression);

 private:
  static constexpr uint32_t kUnknown{0xFFFFFFFF};
  struct State {
    Expression expression;
    uint32_t place;  // in the decoder
    bool is_between, accepts, is_final;
  };

  uint32_t make_transition(uint32_t state, uint8_t byte);
  uint32_t target(uint32_t state, uint8_t byte);
  uint32_t add(Expression expression, uint32_t place);
  uint32_t add_state(State state);
  void find_run(Expression start, size_t slice, ContentRuns& runs);

  Expressions& expressions_;
  Expression root_;
  Encoding encoding_;
  std::shared_ptr<const Alphabet> alphabet_;
  size_t& memory_;
  size_t num_groups_;
  const uint8_t* groups_;
  std::vector<State> states_;
  std::vector<uint32_t> transitions_;  // [state, byte group]
  std::unordered_map<uint64_t, uint32_t> known_;
  std::unordered_map<uint32_t, bool> live_;                 // of expressions that may be empty
  uint32_t closed_{0};                                      // behind the closing quote
  std::unordered_map<uint32_t, ContentRuns> content_runs_;  // by state
};

}  // namespace nibble::grammar
