// A compiled grammar: rules as a program of few operations over automata. Sources of all kinds become this (json_schema.h, regex.h,
// gbnf.h, lark.h) by way of a GrammarBuilder, and a Matcher runs it.
//
// A rule is a network of operations from its entry to kReturn. What a text can be at some place is a set of places in this program, as
// in Earley's parser; rows.h says how it is kept. Counts are numbers beside a place, never copies of it.
#pragma once

#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "grammar/automata/automaton.h"
#include "grammar/automata/expressions.h"
#include "grammar/automata/trie.h"
#include "grammar/vocabulary/kept_mask.h"

namespace nibble::grammar {

// Text that is matched byte by byte: an automaton, or one of many fixed texts.
struct Terminal {
  enum class Kind : uint8_t { kAutomaton, kTexts } kind;
  uint32_t index;  // in `automata` or `tries`
  // The number of characters; kept as a number where an automaton does not see to it (JSON strings only).
  bool is_counted{false};
  uint32_t min{0}, max{kUnlimited};
  bool has_pattern{false};  // beside the count: Automaton::lengths() says what lengths it leaves
};

enum class OpKind : uint8_t {
  kMatch,        // `a`: a terminal. Then `next`.
  kCall,         // `a`: a rule. Then `next`.
  kFork,         // any of `b` operations, listed in `targets` from `a` on
  kReturn,       // the rule's end
  kNext,         // of list `a`: close (`b`) if there are enough items, go on (`next`) if there may be more
  kItem,         // of list `a`: the next item. Then `next`, with one more.
  kMembersNext,  // of object `a`: close (`b`) if nothing is missing, go on (`next`) if a member may follow
  kMemberNames,  // of object `a`: the name of a declared member, or a name that is not declared
  kMemberValue,  // of object `a`: the value of the member whose name was read, or of one that is not declared. Then `next`.
};

struct Op {
  OpKind kind;
  bool keeps_counter{false};  // kMatch: hands the counter of a list or an object on to `next`
  uint32_t a{0}, b{0}, next{0};
};

// Items 0, 1, ... of a list: those of `first` come first, all further ones are of `rest`.
struct List {
  std::vector<uint32_t> first;  // rules
  uint32_t rest{kUnlimited};    // a rule; kUnlimited: there are no more
  uint32_t min{0}, max{kUnlimited};
  // Or a trie of texts, of which each may be an item once. A place's counter then has a bit for each text that was.
  uint32_t texts{kUnlimited};
  bool are_different() const { return texts != kUnlimited; }
  uint32_t num_items(uint32_t counter) const {
    return are_different() ? static_cast<uint32_t>(std::popcount(counter)) : counter;
  }
  uint32_t rule(uint32_t item) const { return item < first.size() ? first[item] : rest; }
  // Behind this many items nothing depends on how many there are.
  uint32_t most_counted() const {
    return max != kUnlimited ? max : std::max(min, static_cast<uint32_t>(first.size()));
  }
};

// The members of an object, in the order of declaration; those that are not declared come last. A place among them is the position of
// the next declared member and, if their number is limited, how many there were.
struct Members {
  struct Place {
    uint32_t position{0}, count{0};
    static Place of(uint32_t counter) { return {counter & 0xFFFF, counter >> 16}; }
    uint32_t counter() const { return position | count << 16; }
  };
  uint32_t names{0};                // a trie of "NAME": with quotes and colon
  std::vector<uint32_t> positions;  // by the trie's order of texts
  std::vector<uint32_t> values;     // rules, by position
  std::vector<uint32_t>
      next_required;  // by position, and behind the last: the first required one from here on
  std::vector<uint32_t> num_required;  // from here on
  struct Undeclared {
    uint32_t name_op;  // reads the name with its quotes, then comes to kMemberValue
    uint32_t value;    // rule
  };
  std::vector<Undeclared> undeclared;
  uint32_t value_op{0};  // behind a declared name
  uint32_t min{0}, max{kUnlimited};
  uint32_t num_declared() const { return static_cast<uint32_t>(values.size()); }
  bool is_counted() const { return min > 0 || max != kUnlimited; }
};

struct Rule {
  uint32_t entry{0};
  bool is_nullable{false};
};

// The program is fixed once it is built. Automata grow while texts are matched, under `mutex`: sequences share a grammar.
struct Grammar {
  std::vector<Op> ops;
  std::vector<uint32_t> targets;
  std::vector<Rule> rules;  // the first is the whole text's
  std::vector<List> lists;
  std::vector<Members> members;
  std::vector<Terminal> terminals;
  std::vector<Trie> tries;

  std::mutex mutex;
  Expressions expressions;
  size_t automata_bytes{0};
  std::deque<Automaton> automata;
  // Masks that took long are kept by vocabulary, operation, state, and whether anything can come behind the operation's text.
  std::map<std::tuple<const VocabularyTrie*, uint32_t, uint32_t, bool>, KeptMask> masks;

  // The memory that it takes by now, without what is small. Waits for whoever has `mutex`.
  size_t bytes();
};

// Compiling a source gives this.
struct Compiled {
  std::shared_ptr<Grammar> grammar;   // never null
  std::vector<std::string> warnings;  // what of the source is not enforced; a line each, for who sent it
};

}  // namespace nibble::grammar
