// Numbers of a schema. A number without any constraint may have every form that JSON allows. Constraints are
// checked on the digits of the text, so a number with a constraint has no exponent.
#include <algorithm>

#include "grammar/languages/schema/compiler.h"

namespace nibble::grammar {
namespace {

// With these limits a number is finite as a double, and readers that limit digits (Python: 4,300) accept it.
constexpr uint32_t kMaxIntegerDigits{64}, kMaxFractionDigits{64};
constexpr uint64_t kMaxDivisor{10'000};

Expression digit(Expressions& e, char first, char last) {
  return e.set({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}

Expression integer_digits(Expressions& e) {
  return e.any_of(e.text("0"),
                  e.concat(digit(e, '1', '9'), e.repeat(digit(e, '0', '9'), 0, kMaxIntegerDigits - 1)));
}

Expression signed_integer(Expressions& e) {
  return e.any_of(e.text("0"), e.concat(e.optional(e.text("-")),
                                        e.concat(digit(e, '1', '9'),
                                                 e.repeat(digit(e, '0', '9'), 0, kMaxIntegerDigits - 1))));
}

// Fractions must not end in zero, so that each value has only one text.
Expression fraction(Expressions& e) {
  return e.concat(e.text("."),
                  e.concat(e.repeat(digit(e, '0', '9'), 0, kMaxFractionDigits - 1), digit(e, '1', '9')));
}

Expression canonical_number(Expressions& e) {
  const Expression with_fraction =
      e.concat(e.optional(e.text("-")), e.concat(integer_digits(e), fraction(e)));
  return e.any_of(signed_integer(e), with_fraction);
}

}  // namespace

Expression SchemaCompiler::plain_number(Types types) {
  Expressions& e = builder_.expressions();
  if (types == kIntegerType) return signed_integer(e);
  const Expression integer = e.concat(e.optional(e.text("-")), integer_digits(e));
  if (types == kFractionType) return e.concat(integer, fraction(e));
  const Expression digits = e.concat(e.text("."), e.repeat(digit(e, '0', '9'), 1, kMaxFractionDigits));
  // Exponents go up to 199: even with the most integer digits, the number stays below 2^1024.
  const Expression exponent =
      e.concat(e.set({{'e', 'e'}, {'E', 'E'}}),
               e.concat(e.optional(e.set({{'+', '+'}, {'-', '-'}})),
                        e.concat(e.optional(e.text("1")), e.repeat(digit(e, '0', '9'), 1, 2))));
  return e.concat(integer, e.concat(e.optional(digits), e.optional(exponent)));
}

Expression SchemaCompiler::multiples(const NumberFacts::Multiple& multiple) {
  const auto num_decimals = static_cast<uint32_t>(multiple.of.fraction.size());
  const std::string digits = multiple.of.integer + multiple.of.fraction;
  if (digits.size() > 9 || std::stoul(digits) > kMaxDivisor || num_decimals > 9)
    document_.refuse(
        *multiple.schema, "multipleOf",
        fmt::format("divisors above {} (counted without the decimal point) are not supported", kMaxDivisor));
  Expressions& e = builder_.expressions();
  const Expression found = e.multiple_of(static_cast<uint32_t>(std::stoul(digits)), num_decimals);
  return multiple.is_negated ? e.complement(found) : found;
}

Expression SchemaCompiler::number_expression(const Facts& facts) {
  Expressions& e = builder_.expressions();
  const NumberFacts& numbers = facts.numbers;
  const Types types = facts.types & kNumberTypes;
  const bool integers = types == kIntegerType;
  std::vector<Expression> parts;
  if (numbers.min) parts.push_back(numbers_at_least(e, *numbers.min, integers));
  if (numbers.max) parts.push_back(numbers_at_most(e, *numbers.max, integers));
  // Bounds of integers, and multiples of an integer, already allow only integers. plain_number() is left out
  // then, because an intersection with it would multiply the states.
  bool has_form = integers && (numbers.min || numbers.max), has_excluded = false;
  for (const NumberFacts::Multiple& multiple : numbers.multiples) {
    parts.push_back(multiples(multiple));
    (multiple.is_negated ? has_excluded : has_form) |= multiple.is_negated || multiple.of.is_integer();
  }
  std::vector<std::string> excluded;
  for (const Json* value : facts.excluded)
    if (value->is_number()) excluded.push_back(Decimal::of(*value).text());
  has_excluded |= !excluded.empty();
  if (!excluded.empty()) parts.push_back(e.complement(e.any_text_of(std::move(excluded))));
  if (types == kFractionType || parts.empty() || (integers && !has_form)) {
    parts.push_back(plain_number(types));
  } else if (has_excluded && !integers) {
    // canonical: each number has exactly one text, so an excluded number can be left out
    parts.push_back(canonical_number(e));
  }
  // At most 15 digits: doubles distinguish such numbers, so a reader that rounds a number to a double still
  // finds it on the same side of a bound.
  constexpr uint32_t kMaxDigits{15};
  const bool is_constrained = parts.size() > 1 || types == kFractionType || numbers.min || numbers.max;
  if (is_constrained && !integers)
    parts.push_back(
        e.concat(e.optional(e.text("-")), e.repeat(e.set({{'0', '9'}, {'.', '.'}}), 1, kMaxDigits + 1)));
  return e.all_of(parts);
}

}  // namespace nibble::grammar
