// A compiled grammar: rules as a program of operations over automata. A GrammarBuilder makes it from any
// source language; a Matcher runs it. A rule is a graph of operations from its entry to kReturn. After some
// text, the parser is at a set of positions in the program, as in Earley's parser (rows.h). A count is stored
// with the position, so repetitions copy no operations.
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
  uint32_t index;  // index in `automata` or `tries`
  // Whether a counter, not the automaton, limits the number of characters to min..max (JSON strings only).
  bool is_counted{false};
  uint32_t min{0}, max{kUnlimited};
  // Whether a counted string also has a pattern, which restricts the lengths further (Automaton::lengths()).
  bool has_pattern{false};
};

enum class OpKind : uint8_t {
  kMatch,  // matches terminal `a`, then continues at `next`
  kCall,   // calls rule `a`, then continues at `next`
  kFork,   // continues at each of targets[a], ..., targets[a + b - 1]
  kReturn,
  kNext,         // list `a`: continues at `b` (the end) if it has enough items, at `next` if it may have more
  kItem,         // list `a`: reads the next item and counts it, then continues at `next`
  kMembersNext,  // object `a`: continues at `b` (the end) if it may end, at `next` if it may have more
  kMemberNames,  // object `a`: reads the name of a declared or an undeclared member
  kMemberValue,  // object `a`: reads the value of the member whose name was read, then continues at `next`
};

struct Op {
  OpKind kind;
  // kMatch: whether `next` gets the counter of the list or object; otherwise it gets 0
  bool keeps_counter{false};
  uint32_t a{0}, b{0}, next{0};
};

// A repetition or array. `first` has the rules of items 0, 1, ...; `rest` is the rule of all later items.
struct List {
  std::vector<uint32_t> first;
  uint32_t rest{kUnlimited};  // kUnlimited: no further items
  uint32_t min{0}, max{kUnlimited};
  // If not kUnlimited: index of a trie of texts. Each item is one of the texts, and no text occurs twice. The
  // counter has a bit per text.
  uint32_t texts{kUnlimited};
  bool are_different() const { return texts != kUnlimited; }
  uint32_t num_items(uint32_t counter) const {
    return are_different() ? static_cast<uint32_t>(std::popcount(counter)) : counter;
  }
  uint32_t rule(uint32_t item) const { return item < first.size() ? first[item] : rest; }
  // Counting stops at this number: more items make no difference.
  uint32_t most_counted() const {
    return max != kUnlimited ? max : std::max(min, static_cast<uint32_t>(first.size()));
  }
};

// The members of a JSON object: declared ones in order, then undeclared ones. A declared member's position is
// its index; members.h defines the positions of undeclared ones. Progress: position of the next declared
// member and, if the object limits its number of members, the number of members so far.
struct Members {
  struct Progress {
    uint32_t position{0}, count{0};
    static Progress of(uint32_t counter) { return {counter & 0xFFFF, counter >> 16}; }
    uint32_t counter() const { return position | count << 16; }
  };
  uint32_t names{0};                // a trie of "NAME": with quotes and colon
  std::vector<uint32_t> positions;  // position of each text of the trie
  std::vector<uint32_t> values;     // rules of the declared members' values, by position
  // [position], including the end: the first required member from that position on; num_declared() if none.
  std::vector<uint32_t> next_required;
  std::vector<uint32_t> num_required;  // [position]: number of required members from there on
  struct Undeclared {
    uint32_t name_op;  // reads the quoted name, then leads to kMemberValue
    uint32_t value;    // rule of the value
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

// Never changes once built, except the fields from `mutex` on: all sequences share these under `mutex`.
struct Grammar {
  std::vector<Op> ops;
  std::vector<uint32_t> targets;
  std::vector<Rule> rules;  // the first one derives the whole text
  std::vector<List> lists;
  std::vector<Members> members;
  std::vector<Terminal> terminals;
  std::vector<Trie> tries;

  std::mutex mutex;
  Expressions expressions;
  size_t automata_bytes{0};
  std::deque<Automaton> automata;
  // Cache of masks. Key: vocabulary, operation, state of its automaton, and whether more text can follow
  // after the operation has matched.
  std::map<std::tuple<const VocabularyTrie*, uint32_t, uint32_t, bool>, KeptMask> masks;

  // Returns an estimate of the memory in use, computed from the sizes of the large tables. Waits for `mutex`.
  size_t bytes();
};

struct Compiled {
  std::shared_ptr<Grammar> grammar;  // never null
  // Lines for the client, one for each requirement that is not enforced.
  std::vector<std::string> warnings;
};

}  // namespace nibble::grammar
