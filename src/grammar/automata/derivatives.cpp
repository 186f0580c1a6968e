#include <algorithm>

#include "grammar/automata/expressions.h"

namespace nibble::grammar {
namespace {

// State of multiple_of() after some characters: the phase, the number of decimals, and the number that the
// digits form, modulo the divisor.
struct Digits {
  enum Phase : uint32_t { kStart, kSign, kZero, kMinusZero, kInteger, kPoint, kDecimals };
  Phase phase;
  uint32_t num_decimals, remainder;

  static Digits of(uint32_t state) { return {static_cast<Phase>(state & 7), state >> 3 & 31, state >> 8}; }
  uint32_t state() const { return phase | num_decimals << 3 | remainder << 8; }
};

uint64_t power_of_ten(uint32_t exponent) {
  uint64_t power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

// Returns the remainder modulo `divisor` of the number with zeros appended, so that it has `num_decimals`
// decimals.
uint64_t whole_remainder(const Digits& digits, uint32_t divisor, uint32_t num_decimals) {
  return digits.remainder * (power_of_ten(num_decimals - digits.num_decimals) % divisor) % divisor;
}

bool accepts(const Digits& digits, uint32_t divisor, uint32_t num_decimals) {
  switch (digits.phase) {
    case Digits::kZero:
      return true;
    case Digits::kInteger:
    case Digits::kDecimals:
      return whole_remainder(digits, divisor, num_decimals) == 0;
    default:
      return false;
  }
}

// Whether the number can be a multiple of `divisor`, as it is or with more digits appended.
bool is_live(const Digits& digits, uint32_t divisor, uint32_t num_decimals) {
  if (digits.phase == Digits::kMinusZero) return num_decimals > 0;
  if (digits.phase != Digits::kPoint && digits.phase != Digits::kDecimals) return true;
  const uint64_t missing = (divisor - whole_remainder(digits, divisor, num_decimals)) % divisor;
  return missing < power_of_ten(num_decimals - digits.num_decimals);
}

}  // namespace

Expression Expressions::multiple_of(uint32_t divisor, uint32_t num_decimals) {
  const Multiple multiple{divisor, num_decimals};
  auto known = std::ranges::find(multiples_, multiple);
  if (known == multiples_.end()) known = multiples_.insert(known, multiple);
  return make({.kind = Kind::kMultiple, .a = to_index(static_cast<size_t>(known - multiples_.begin()))});
}

Expression Expressions::derive_multiple(const Node& n, char32_t c) {
  const auto [divisor, num_decimals] = multiples_[n.a];
  Digits digits = Digits::of(n.b);
  const bool is_digit = c >= '0' && c <= '9';
  const auto append = [&, divisor = divisor] {
    digits.remainder = static_cast<uint32_t>((uint64_t{digits.remainder} * 10 + (c - '0')) % divisor);
  };
  switch (digits.phase) {
    case Digits::kStart:
    case Digits::kSign:
      if (c == '-' && digits.phase == Digits::kStart) {
        digits.phase = Digits::kSign;
      } else if (is_digit) {
        append();
        digits.phase = c != '0'                        ? Digits::kInteger
                       : digits.phase == Digits::kSign ? Digits::kMinusZero
                                                       : Digits::kZero;
      } else {
        return Expression::kNothing;
      }
      break;
    case Digits::kInteger:
    case Digits::kZero:
    case Digits::kMinusZero:
      if (c == '.' && num_decimals > 0) {
        digits.phase = Digits::kPoint;
      } else if (is_digit && digits.phase == Digits::kInteger) {
        append();
      } else {
        return Expression::kNothing;
      }
      break;
    case Digits::kPoint:
    case Digits::kDecimals:
      if (!is_digit || digits.num_decimals == num_decimals) return Expression::kNothing;
      append();
      ++digits.num_decimals;
      digits.phase = Digits::kDecimals;
      break;
  }
  if (!is_live(digits, divisor, num_decimals)) return Expression::kNothing;
  return make({.kind = Kind::kMultiple,
               .accepts_empty = accepts(digits, divisor, num_decimals),
               .a = n.a,
               .b = digits.state()});
}

Expression Expressions::derivative(Expression a, char32_t code_point) {
  if (a == Expression::kNothing || a == Expression::kAnything) return a;
  if (a == Expression::kEmptyText) return Expression::kNothing;
  if (node(a).kind == Kind::kSet)
    return sets_[node(a).a].contains(code_point) ? Expression::kEmptyText : Expression::kNothing;
  const uint64_t key = uint64_t{static_cast<uint32_t>(a)} << 32 | code_point;
  if (const auto known = derivatives_.find(key); known != derivatives_.end()) return known->second;
  fuel_.spend(4);
  const Expression result = derive(a, code_point);
  // Clearing this cache costs little: automata keep their own transitions, so it helps only expressions that
  // share a subexpression.
  if (derivatives_.size() >= kMaxExpressions) derivatives_.clear();
  derivatives_.emplace(key, result);
  return result;
}

Expression Expressions::derive(Expression a, char32_t c) {
  const Node n = node(a);  // a copy: make() may reallocate the nodes
  switch (n.kind) {
    case Kind::kConcat:
      return derive_concat(a, c);
    case Kind::kAnyOf:
    case Kind::kAllOf: {
      std::vector<Expression> parts;
      parts.reserve(n.b);
      for (uint32_t i = 0; i < n.b; ++i) parts.push_back(derivative(operands_[n.a + i], c));
      return combine(n.kind, parts);
    }
    case Kind::kNot:
      return complement(derivative(static_cast<Expression>(n.a), c));
    case Kind::kRepeat: {
      const Expression first = derivative(static_cast<Expression>(n.a), c);
      if (first == Expression::kNothing) return first;
      return concat(first, repeat(static_cast<Expression>(n.a), n.min == 0 ? 0 : n.min - 1,
                                  n.max == kUnlimited ? kUnlimited : n.max - 1));
    }
    case Kind::kTrie: {
      const uint32_t child = tries_[n.a].child(n.b, c);
      if (child == Trie::kNone) return Expression::kNothing;
      if (!tries_[n.a].has_children(child)) return Expression::kEmptyText;
      return make({.kind = Kind::kTrie, .a = n.a, .b = child, .max = n.max});
    }
    case Kind::kMultiple:
      return derive_multiple(n, c);
    default:
      return Expression::kNothing;  // derivative() has handled all other kinds
  }
}

// A loop handles the leading parts that accept the empty text: recursion could be as deep as their number.
Expression Expressions::derive_concat(Expression a, char32_t c) {
  std::vector<Expression> alternatives;
  while (node(a).kind == Kind::kConcat) {
    const Expression first = static_cast<Expression>(node(a).a), rest = static_cast<Expression>(node(a).b);
    fuel_.spend();
    alternatives.push_back(concat(derivative(first, c), rest));
    if (!accepts_empty(first)) return any_of(alternatives);
    a = rest;
  }
  alternatives.push_back(derivative(a, c));
  return any_of(alternatives);
}

}  // namespace nibble::grammar
