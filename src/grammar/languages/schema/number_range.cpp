// Bounds of numbers, as expressions over their digits. Of two numbers, the one with more digits before the
// point is larger. If they have equal counts of such digits, the first digit that differs decides.
#include "grammar/languages/schema/compiler.h"

namespace nibble::grammar {
namespace {

class Ranges {
 public:
  Ranges(Expressions& expressions, bool integers) : e_(expressions), integers_(integers) {}

  // Returns the unsigned numbers that are at least, or at most, a non-negative decimal.
  Expression at_least(const Decimal& low, bool is_exclusive) {
    std::vector<Expression> all;
    const size_t num = low.integer.size();
    if (low.integer == "0") {
      all.push_back(then_any(e_.concat(digits('1', '9'), any_digits(0))));
    } else {
      all.push_back(then_any(e_.concat(digits('1', '9'), any_digits(num))));
      for (size_t k = 0; k < num; ++k)
        if (low.integer[k] < '9')
          all.push_back(then_any(e_.concat(
              e_.text(low.integer.substr(0, k)),
              e_.concat(digits(static_cast<char>(low.integer[k] + 1), '9'), exact_digits(num - k - 1)))));
    }
    all.push_back(e_.concat(e_.text(low.integer), fraction_at_least(low.fraction, is_exclusive)));
    return e_.any_of(all);
  }

  Expression at_most(const Decimal& high, bool is_exclusive) {
    std::vector<Expression> all;
    const size_t num = high.integer.size();
    if (num > 1) {
      all.push_back(then_any(e_.text("0")));
      all.push_back(then_any(e_.concat(digits('1', '9'), e_.repeat(digits('0', '9'), 0, to_index(num - 2)))));
    }
    for (size_t k = 0; k < num; ++k) {
      const char least = k == 0 && num > 1 ? '1' : '0';
      if (high.integer[k] > least)
        all.push_back(then_any(e_.concat(
            e_.text(high.integer.substr(0, k)),
            e_.concat(digits(least, static_cast<char>(high.integer[k] - 1)), exact_digits(num - k - 1)))));
    }
    all.push_back(e_.concat(e_.text(high.integer), fraction_at_most(high.fraction, is_exclusive)));
    return e_.any_of(all);
  }

 private:
  Expression digits(char first, char last) {
    return e_.set({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
  }
  Expression any_digits(size_t min) { return e_.repeat(digits('0', '9'), to_index(min)); }
  Expression exact_digits(size_t num) { return e_.repeat(digits('0', '9'), to_index(num), to_index(num)); }
  Expression then_any(Expression integer) {
    return integers_ ? integer : e_.concat(integer, e_.optional(e_.concat(e_.text("."), any_digits(1))));
  }
  Expression not_zero() { return e_.concat(any_digits(0), e_.concat(digits('1', '9'), any_digits(0))); }

  // Returns the fractions with which a number reaches the bound, if both have the same integer part.
  Expression fraction_at_least(const std::string& low, bool is_exclusive) {
    if (integers_) return low.empty() && !is_exclusive ? Expression::kEmptyText : Expression::kNothing;
    if (low.empty())
      return is_exclusive ? e_.concat(e_.text("."), not_zero())
                          : e_.optional(e_.concat(e_.text("."), any_digits(1)));
    std::vector<Expression> all{e_.concat(e_.text(low), is_exclusive ? not_zero() : any_digits(0))};
    for (size_t k = 0; k < low.size(); ++k)
      if (low[k] < '9')
        all.push_back(e_.concat(e_.text(low.substr(0, k)),
                                e_.concat(digits(static_cast<char>(low[k] + 1), '9'), any_digits(0))));
    return e_.concat(e_.text("."), e_.any_of(all));
  }

  Expression fraction_at_most(const std::string& high, bool is_exclusive) {
    if (integers_) return !high.empty() || !is_exclusive ? Expression::kEmptyText : Expression::kNothing;
    if (high.empty())
      return is_exclusive ? Expression::kNothing
                          : e_.optional(e_.concat(e_.text("."), e_.repeat(e_.text("0"), 1)));
    std::vector<Expression> all;
    for (size_t k = 0; k < high.size(); ++k) {
      if (k > 0) all.push_back(e_.text(high.substr(0, k)));  // a prefix of `high` is a smaller number
      if (high[k] > '0')
        all.push_back(e_.concat(e_.text(high.substr(0, k)),
                                e_.concat(digits('0', static_cast<char>(high[k] - 1)), any_digits(0))));
    }
    if (!is_exclusive) all.push_back(e_.concat(e_.text(high), e_.repeat(e_.text("0"), 0)));
    return e_.optional(e_.concat(e_.text("."), e_.any_of(all)));
  }

  Expressions& e_;
  bool integers_;
};

// Converts a bound to an inclusive bound at an integer.
Bound integer_bound(const Bound& bound, bool is_min) {
  Decimal value = is_min ? ceil(bound.value) : floor(bound.value);
  if (bound.is_exclusive && bound.value.is_integer()) value = next_integer(value, is_min);
  return {value, false};
}

}  // namespace

Expression numbers_at_least(Expressions& e, const Bound& given, bool integers) {
  const Bound bound = integers ? integer_bound(given, true) : given;
  Ranges ranges(e, integers);
  if (!bound.value.is_negative) return ranges.at_least(bound.value, bound.is_exclusive);
  const Expression negative =
      e.all_of(ranges.at_most(bound.value.magnitude(), bound.is_exclusive), ranges.at_least({}, true));
  return e.any_of(ranges.at_least({}, false), e.concat(e.text("-"), negative));
}

Expression numbers_at_most(Expressions& e, const Bound& given, bool integers) {
  const Bound bound = integers ? integer_bound(given, false) : given;
  Ranges ranges(e, integers);
  if (bound.value.is_negative)
    return e.concat(e.text("-"), ranges.at_least(bound.value.magnitude(), bound.is_exclusive));
  const Expression negative = e.concat(e.text("-"), ranges.at_least({}, true));
  return e.any_of(ranges.at_most(bound.value, bound.is_exclusive), negative);
}

}  // namespace nibble::grammar
