// Limits on what a grammar may cost. Schemas and grammars are untrusted, and a short one can describe an
// automaton of any size, so all code counts before it allocates. Exceeding a limit throws InputError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/errors/check.h"
#include "core/errors/error.h"

namespace nibble::grammar {

inline constexpr uint32_t kUnlimited{std::numeric_limits<uint32_t>::max()};  // no upper bound

// Together these limits keep a compiled grammar with its automata below 64 MiB, and compilation below 50 ms.
inline constexpr size_t kMaxSourceBytes{2 << 20};  // text of a schema or a grammar
// Nodes of regular expressions, including the states of automata.
inline constexpr size_t kMaxExpressions{200'000};
inline constexpr size_t kMaxStateBytes{16 << 20};   // transitions of all automata, and their alphabets
inline constexpr size_t kMaxLiteralBytes{1 << 19};  // texts in enums, choices and names of members
// With uniqueItems: number of values that an item may have. One bit per value marks the values already used.
inline constexpr size_t kMaxDifferent{32};
inline constexpr size_t kMaxNodes{100'000};  // nodes of the grammar's rules
inline constexpr size_t kMaxItems{2'000};    // items of a row (rows.h): ways to continue a text at one point
inline constexpr size_t kMaxArenaBytes{32 << 20};  // memory of one sequence's rows
// nesting in a source; limited because the code that walks a source is recursive
inline constexpr uint32_t kMaxDepth{250};

// Fuel: units of work that take some tens of nanoseconds each.
inline constexpr uint64_t kPropertyFuel{80'000};  // cost of a Unicode property that is new to this process
inline constexpr uint64_t kCompileFuel{1'000'000};
inline constexpr uint64_t kMaskFuel{500'000};  // limit for one mask, or for one accepted token

class TooMuchWork : public InputError {
  using InputError::InputError;
};

// Units of work that are left; a unit takes some tens of nanoseconds. Long steps spend several units.
class Fuel {
 public:
  explicit Fuel(uint64_t units) : left_(units) {}
  void fill(uint64_t units) { left_ = units; }
  // Throws TooMuchWork, without spending, if fewer units are left.
  void spend(uint64_t units = 1) {
    if (units > left_) [[unlikely]]
      throw TooMuchWork("the grammar takes too much work; make it smaller, or nest its repetitions less");
    left_ -= units;
  }
  uint64_t left() const { return left_; }

 private:
  uint64_t left_;
};

// Converts an index or a count to 32 bits. 2^32 or more is a bug: the limits keep all tables far smaller.
inline uint32_t to_index(size_t place) {
  NIBBLE_CHECK(place < kUnlimited, "{}", place);
  return static_cast<uint32_t>(place);
}

}  // namespace nibble::grammar
