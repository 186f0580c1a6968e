// Bounds what a grammar may cost. Schemas and grammars come from outside, and a short one can describe an automaton of any size: whoever
// makes something on its behalf counts it here first. A count that is exceeded is an InputError; nothing is cut short silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "core/check.h"
#include "core/error.h"

namespace nibble::grammar {

inline constexpr uint32_t kUnlimited{
    std::numeric_limits<uint32_t>::max()};  // the upper bound of a count that has none

// Together they keep a compiled grammar and its automata below 64 MiB, and its compilation below 50 ms on a machine of today.
inline constexpr size_t kMaxSourceBytes{2 << 20};  // of a schema's or a grammar's text
inline constexpr size_t kMaxExpressions{
    200'000};  // nodes of regular expressions, those of automata's states included
inline constexpr size_t kMaxStateBytes{16 << 20};   // of all automata's transitions, and of their alphabets
inline constexpr size_t kMaxLiteralBytes{1 << 19};  // of the texts in enums, choices and names of members
inline constexpr size_t kMaxDifferent{32};   // of the values of items that must all differ: each is a bit
inline constexpr size_t kMaxNodes{100'000};  // of the grammar's rules
inline constexpr size_t kMaxItems{2'000};    // of one row: ways to go on at one place of the text
inline constexpr size_t kMaxArenaBytes{32 << 20};  // of one sequence's rows
inline constexpr uint32_t kMaxDepth{250};          // of nesting in a source; code that walks it recurses

// Steps of work, each of some tens of nanoseconds.
inline constexpr uint64_t kPropertyFuel{80'000};  // of a property of Unicode that is new to this process
inline constexpr uint64_t kCompileFuel{1'000'000};
inline constexpr uint64_t kMaskFuel{500'000};  // of one mask, or of one token that is accepted

// A source takes more steps than it may.
class TooMuchWork : public InputError {
  using InputError::InputError;
};

// Work that is left. Whoever does a step spends a unit; what costs more than some tens of nanoseconds spends more.
class Fuel {
 public:
  explicit Fuel(uint64_t units) : left_(units) {}
  // Begins anew, whatever is left.
  void fill(uint64_t units) { left_ = units; }
  // Throws InputError, and takes nothing, if less is left.
  void spend(uint64_t units = 1) {
    if (units > left_) [[unlikely]]
      throw TooMuchWork("the grammar takes too much work; make it smaller, or its repetitions less nested");
    left_ -= units;
  }
  uint64_t left() const { return left_; }

 private:
  uint64_t left_;
};

// A place in a table, or a number of entries. The limits above keep every table far below 2^32 entries; more is a bug.
inline uint32_t to_index(size_t place) {
  NIBBLE_CHECK(place < kUnlimited, "{}", place);
  return static_cast<uint32_t>(place);
}

}  // namespace nibble::grammar
