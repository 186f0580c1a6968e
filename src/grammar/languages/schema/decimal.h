// A number as exact decimal digits, from which bounds of a schema become automata over digits.
#pragma once

#include <string>

#include "core/text/json.h"

namespace nibble::grammar {

struct Decimal {
  bool is_negative{false};
  std::string integer{"0"};  // without leading zeros
  std::string fraction;      // without trailing zeros

  static Decimal of(const Json& number);  // exactly the digits that nlohmann prints
  bool is_zero() const { return integer == "0" && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
  Decimal magnitude() const { return {false, integer, fraction}; }
  std::string text() const;
};

int compare(const Decimal& a, const Decimal& b);  // negative, 0 or positive
// Round towards minus infinity (floor) or plus infinity (ceil).
Decimal floor(const Decimal& a);
Decimal ceil(const Decimal& a);
Decimal next_integer(const Decimal& integer, bool is_up);

}  // namespace nibble::grammar
