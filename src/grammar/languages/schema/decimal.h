// A number as decimal digits, exactly: bounds of a schema become automata over digits.
#pragma once

#include <string>

#include "core/json.h"
#include "grammar/languages/schema/json_schema.h"

namespace nibble::grammar {

struct Decimal {
  bool is_negative{false};
  std::string integer{"0"};  // without leading zeros
  std::string fraction;      // without trailing zeros

  static Decimal of(const Json& number);  // as it is written out
  bool is_zero() const { return integer == "0" && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
  Decimal magnitude() const { return {false, integer, fraction}; }
  std::string text() const;
};

int compare(const Decimal& a, const Decimal& b);  // below 0, 0, above 0
// The integer next to it, itself if it is one, towards minus or plus infinity.
Decimal floor(const Decimal& a);
Decimal ceil(const Decimal& a);
// The integer one above, or one below.
Decimal next_integer(const Decimal& integer, bool is_up);

}  // namespace nibble::grammar
