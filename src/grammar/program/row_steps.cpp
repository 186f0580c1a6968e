#include <algorithm>

#include "grammar/program/members.h"
#include "grammar/program/rows.h"

namespace nibble::grammar {
namespace {

// Whether one of the names below `node` of the trie belongs to a member in `legal`.
bool has_legal_name(const Members& members, const Trie& names, uint32_t node, Positions legal) {
  const auto begin = members.positions.begin() + names.first_text(node);
  const auto end = members.positions.begin() + names.end_text(node);
  return std::any_of(begin, end,
                     [&](uint32_t position) { return position >= legal.first && position < legal.end; });
}

}  // namespace

Rows::Stepped Rows::step(Item& item, uint8_t byte) {
  const Op& op = grammar_->ops[item.op];
  if (op.kind == OpKind::kMemberNames) return step_name(op, item, byte);
  if (op.kind == OpKind::kItem) return step_different(op, item, byte);
  const Terminal& terminal = grammar_->terminals[op.a];
  if (terminal.kind == Terminal::Kind::kTexts) {
    const Trie& texts = grammar_->tries[terminal.index];
    item.state = texts.child(item.state, byte);
    if (item.state == Trie::kNone) return {};
    return {true, texts.accepts(item.state), texts.has_children(item.state)};
  }
  if (terminal.is_counted) return step_counted(terminal, item, byte);
  Automaton& automaton = grammar_->automata[terminal.index];
  item.state = automaton.next(item.state, byte);
  if (item.state == Automaton::kDead) return {};
  return {true, automaton.accepts(item.state), !automaton.is_final(item.state)};
}

// Advances a JSON string with counted characters. Below the maximum, another character may begin; from the
// minimum on, the quote may follow. If the string has a pattern, a byte is legal only if the string can still
// match the pattern with a length within these limits.
Rows::Stepped Rows::step_counted(const Terminal& terminal, Item& item, uint8_t byte) {
  Automaton& automaton = grammar_->automata[terminal.index];
  const uint32_t from = item.state;
  const bool opens = from == Automaton::kStart;
  if (!opens && automaton.is_between_characters(from)) {
    if (byte == '"' ? item.counter < terminal.min : item.counter >= terminal.max) return {};
  }
  item.state = automaton.next(from, byte);
  if (item.state == Automaton::kDead) return {};
  if (automaton.is_final(item.state) && automaton.accepts(item.state)) return {true, true, false};
  const bool counts = !opens && automaton.is_between_characters(item.state);
  if (terminal.has_pattern) {
    const auto can_end = [&](uint32_t state, uint32_t num_read) {
      return num_read <= terminal.max &&
             automaton.can_end(state, terminal.min - std::min(terminal.min, num_read),
                               terminal.max == kUnlimited ? kUnlimited : terminal.max - num_read);
    };
    if (automaton.is_between_characters(item.state)) {
      if (!can_end(item.state, item.counter + counts)) return {};
    } else {
      const auto& classes = automaton.classes_at(item.state);
      if (std::ranges::none_of(classes, [&](uint32_t c) {
            const uint32_t next = automaton.next_class(item.state, c);
            return next != Automaton::kDead && can_end(next, item.counter + 1);
          }))
        return {};
    }
  }
  if (counts)
    item.counter = std::min(item.counter + 1, terminal.max != kUnlimited ? terminal.max : terminal.min);
  return {true, false, true};
}

// Advances an item of a list whose texts must all differ: a text that has already occurred is illegal.
Rows::Stepped Rows::step_different(const Op& op, Item& item, uint8_t byte) {
  const Trie& texts = grammar_->tries[grammar_->lists[op.a].texts];
  item.state = texts.child(item.state, byte);
  if (item.state == Trie::kNone) return {};
  const auto has_new = [&](uint32_t first, uint32_t end) {
    for (; first < end; ++first)
      if ((item.counter >> first & 1) == 0) return true;
    return false;
  };
  const uint32_t first = texts.first_text(item.state), end = texts.end_text(item.state);
  const bool accepts = texts.accepts(item.state) && has_new(first, first + 1);
  const bool goes_on = has_new(first + texts.accepts(item.state), end);
  return {accepts || goes_on, accepts, goes_on};
}

Rows::Stepped Rows::step_name(const Op& op, Item& item, uint8_t byte) {
  const Members& members = grammar_->members[op.a];
  const Trie& names = grammar_->tries[members.names];
  item.state = names.child(item.state, byte);
  if (item.state == Trie::kNone) return {};
  if (!has_legal_name(members, names, item.state, legal_names(members, Members::Progress::of(item.counter))))
    return {};
  // Names in the trie end in a quote and a colon, so no name is a prefix of another. So if this node ends a
  // name, that name is the legal one found above.
  return {true, names.accepts(item.state), names.has_children(item.state)};
}

}  // namespace nibble::grammar
