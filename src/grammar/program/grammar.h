// A compiled grammar: rules as a program of a few kinds of operations over automata. All kinds of source
// (json_schema.h, regex.h, gbnf.h, lark.h) compile to it through a GrammarBuilder, and a Matcher runs it.
//
// A rule is a network of operations from its entry to kReturn. What a text can be at one point is a set of
// positions in this program, as in Earley's parser; rows.h describes the representation. Counts are numbers
// stored with a position, so a repetition never copies operations.
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
  // Whether the number of characters is kept as a number, because the automaton does not bound it (JSON
  // strings only).
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

// A list. `first` has the rules of items 0, 1, ...; all further items are of `rest`.
struct List {
  std::vector<uint32_t> first;  // rules
  uint32_t rest{kUnlimited};    // a rule; kUnlimited: no further items
  uint32_t min{0}, max{kUnlimited};
  // If set, a trie of texts, each of which may be an item once. The counter then has a bit for each text that
  // occurred.
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

// The members of an object: declared ones in their order, then undeclared ones. Progress is the position of
// the next declared member and, if the number of members is limited, the number so far.
struct Members {
  struct Progress {
    uint32_t position{0}, count{0};
    static Progress of(uint32_t counter) { return {counter & 0xFFFF, counter >> 16}; }
    uint32_t counter() const { return position | count << 16; }
  };
  uint32_t names{0};                // a trie of "NAME": with quotes and colon
  std::vector<uint32_t> positions;  // by index of the trie's text
  std::vector<uint32_t> values;     // rules, by position
  // By position, and for the end: the first required member at or after the position.
  std::vector<uint32_t> next_required;
  std::vector<uint32_t> num_required;  // by position: number of required members at or after it
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

// The program is fixed once it is built. Automata grow while texts are matched, under `mutex`, because
// sequences share a grammar.
struct Grammar {
  std::vector<Op> ops;
  std::vector<uint32_t> targets;
  std::vector<Rule> rules;  // the first is the rule of the whole text
  std::vector<List> lists;
  std::vector<Members> members;
  std::vector<Terminal> terminals;
  std::vector<Trie> tries;

  std::mutex mutex;
  Expressions expressions;
  size_t automata_bytes{0};
  std::deque<Automaton> automata;
  // Masks that took long to find, by vocabulary, operation, state, and whether other text can follow the
  // operation's text.
  std::map<std::tuple<const VocabularyTrie*, uint32_t, uint32_t, bool>, KeptMask> masks;

  // Returns the memory in use, except small parts. Waits for `mutex`.
  size_t bytes();
};

// The result of compiling a source.
struct Compiled {
  std::shared_ptr<Grammar> grammar;  // never null
  // Parts of the source that are not enforced, a line each, for the client.
  std::vector<std::string> warnings;
};

}  // namespace nibble::grammar
