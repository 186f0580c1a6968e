#include "grammar/languages/schema/decimal.h"

#include <algorithm>

namespace nibble::grammar {
namespace {

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.integer.size() != b.integer.size()) return a.integer.size() < b.integer.size() ? -1 : 1;
  if (const int order = a.integer.compare(b.integer); order != 0) return order;
  return a.fraction.compare(b.fraction);
}

Decimal normal(Decimal a) {
  a.integer.erase(0, std::min(a.integer.find_first_not_of('0'), a.integer.size() - 1));
  a.fraction.erase(a.fraction.find_last_not_of('0') + 1);
  if (a.is_zero()) a.is_negative = false;
  return a;
}

std::string incremented(std::string digits) {
  for (size_t i = digits.size(); i-- > 0; digits[i] = '0')
    if (digits[i] != '9') {
      ++digits[i];
      return digits;
    }
  return '1' + digits;
}

// Returns the number minus 1. `digits` must be a number above 0.
std::string decremented(std::string digits) {
  size_t i = digits.size() - 1;
  for (; digits[i] == '0'; --i) digits[i] = '9';
  --digits[i];
  return digits;
}

}  // namespace

// nlohmann writes the shortest digits that read back as the same double: "0.1", "1.5e-07", "1e+20".
Decimal Decimal::of(const Json& number) {
  const std::string text = number.dump();
  Decimal result;
  result.is_negative = text.starts_with('-');
  const size_t begin = result.is_negative, e = text.find_first_of("eE");
  const std::string mantissa = text.substr(begin, e == std::string::npos ? e : e - begin);
  const size_t point = mantissa.find('.');
  result.integer = mantissa.substr(0, point);
  if (point != std::string::npos) result.fraction = mantissa.substr(point + 1);
  for (int exponent = e == std::string::npos ? 0 : std::atoi(text.c_str() + e + 1); exponent != 0;) {
    if (exponent > 0) {
      result.integer += result.fraction.empty() ? '0' : result.fraction[0];
      if (!result.fraction.empty()) result.fraction.erase(0, 1);
      --exponent;
    } else {
      result.fraction.insert(0, 1, result.integer.back());
      result.integer.pop_back();
      if (result.integer.empty()) result.integer = "0";
      ++exponent;
    }
  }
  return normal(result);
}

std::string Decimal::text() const {
  return (is_negative ? "-" : "") + integer + (fraction.empty() ? "" : "." + fraction);
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.is_negative != b.is_negative) return a.is_negative ? -1 : 1;
  return a.is_negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

Decimal next_integer(const Decimal& integer, bool is_up) {
  Decimal result = integer;
  if (result.is_zero()) {
    result.integer = "1";
    result.is_negative = !is_up;
  } else {
    result.integer = result.is_negative == is_up ? decremented(result.integer) : incremented(result.integer);
  }
  return normal(result);
}

Decimal floor(const Decimal& a) {
  const Decimal towards_zero = normal({a.is_negative, a.integer, ""});
  return a.is_negative && !a.is_integer() ? next_integer(towards_zero, false) : towards_zero;
}

Decimal ceil(const Decimal& a) {
  const Decimal towards_zero = normal({a.is_negative, a.integer, ""});
  return !a.is_negative && !a.is_integer() ? next_integer(towards_zero, true) : towards_zero;
}

}  // namespace nibble::grammar
