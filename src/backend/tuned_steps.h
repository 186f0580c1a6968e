// Steps for which `nibble tune` chose other kernels than the kernel table: kernels that the table has for
// other numbers of rows. The choice changes no bit of a result.
#pragma once

namespace nibble {

// Steps of from_rows to to_rows rows run the kernels of attention and lm_head that the table has for
// `attention` rows, and the kernels of router and experts that it has for `experts` rows.
struct TunedSteps {
  int from_rows{0}, to_rows{0};
  int attention{0}, experts{0};
  friend bool operator==(const TunedSteps&, const TunedSteps&) = default;
};

}  // namespace nibble
