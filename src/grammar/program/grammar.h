// A compiled grammar: rules as a program of operations over automata, which a GrammarBuilder makes from all
// source languages and a Matcher runs. A rule is a network of operations from its entry to kReturn. What a
// text can be at one point is a set of positions in the program, as in Earley's parser (rows.h). Counts are
// numbers stored with a position, so repetitions copy no operations.
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

// Text that is matched byte by byte: by an automaton, or as one of many fixed texts.
struct Terminal {
  enum class Kind : uint8_t { kAutomaton, kTexts } kind;
  uint32_t index;  // in `automata` or `tries`
  // Whether characters are counted, because the automaton does not bound their number (JSON strings only).
  bool is_counted{false};
  uint32_t min{0}, max{kUnlimited};
  // The text also has a pattern: Automaton::lengths() gives the lengths that it allows.
  bool has_pattern{false};
};

enum class OpKind : uint8_t {
  kMatch,        // `a`: a terminal, then `next`
  kCall,         // `a`: a rule, then `next`
  kFork,         // any of the `b` operations in `targets` from index `a` on
  kReturn,       // end of the rule
  kNext,         // list `a`: close (`b`) if there are enough items, continue (`next`) if there may be more
  kItem,         // list `a`: the next item, then `next` with a count one higher
  kMembersNext,  // object `a`: close (`b`) if nothing is missing, continue (`next`) if a member may follow
  kMemberNames,  // object `a`: the name of a declared or an undeclared member
  kMemberValue,  // object `a`: the value of the member whose name was read, then `next`
};

struct Op {
  OpKind kind;
  bool keeps_counter{false};  // kMatch: passes the counter of a list or an object on to `next`
  uint32_t a{0}, b{0}, next{0};
};

// `first`: the rules of items 0, 1, ...; `rest`: of all further items.
struct List {
  std::vector<uint32_t> first;
  uint32_t rest{kUnlimited};  // kUnlimited: no further items
  uint32_t min{0}, max{kUnlimited};
  // If set, a trie of texts, each of which may be an item once; the counter then has a bit per text.
  uint32_t texts{kUnlimited};
  bool are_different() const { return texts != kUnlimited; }
  uint32_t num_items(uint32_t counter) const {
    return are_different() ? static_cast<uint32_t>(std::popcount(counter)) : counter;
  }
  uint32_t rule(uint32_t item) const { return item < first.size() ? first[item] : rest; }
  // From this number of items on, the exact number no longer matters.
  uint32_t most_counted() const {
    return max != kUnlimited ? max : std::max(min, static_cast<uint32_t>(first.size()));
  }
};

// The members of an object: declared ones in order, then undeclared ones. Progress: the position of the next
// declared member and, if members are limited, their number so far.
struct Members {
  struct Progress {
    uint32_t position{0}, count{0};
    static Progress of(uint32_t counter) { return {counter & 0xFFFF, counter >> 16}; }
    uint32_t counter() const { return position | count << 16; }
  };
  uint32_t names{0};                // a trie of "NAME": with quotes and colon
  std::vector<uint32_t> positions;  // by index of the trie's text
  std::vector<uint32_t> values;     // rules, by position
  // By position, and for the end: the first required member from there on.
  std::vector<uint32_t> next_required;
  std::vector<uint32_t> num_required;  // by position: number of required members from there on
  struct Undeclared {
    uint32_t name_op;  // reads the name with its quotes, then leads to kMemberValue
    uint32_t value;    // a rule
  };
  std::vector<Undeclared> undeclared;
  uint32_t value_op{0};  // the operation after a declared name
  uint32_t min{0}, max{kUnlimited};
  uint32_t num_declared() const { return static_cast<uint32_t>(values.size()); }
  bool is_counted() const { return min > 0 || max != kUnlimited; }
};

struct Rule {
  uint32_t entry{0};
  bool is_nullable{false};
};

// Fixed once built, except automata, which grow under `mutex` while texts are matched: sequences share them.
struct Grammar {
  std::vector<Op> ops;
  std::vector<uint32_t> targets;
  std::vector<Rule> rules;  // the first is that of the whole text
  std::vector<List> lists;
  std::vector<Members> members;
  std::vector<Terminal> terminals;
  std::vector<Trie> tries;

  std::mutex mutex;
  Expressions expressions;
  size_t automata_bytes{0};
  std::deque<Automaton> automata;
  // Kept masks by vocabulary, operation, state, and whether other text can follow the operation's text.
  std::map<std::tuple<const VocabularyTrie*, uint32_t, uint32_t, bool>, KeptMask> masks;

  // Memory in use, without small parts. Waits for `mutex`.
  size_t bytes();
};

struct Compiled {
  std::shared_ptr<Grammar> grammar;  // never null
  // What is not enforced, one line each, for the client.
  std::vector<std::string> warnings;
};

}  // namespace nibble::grammar
