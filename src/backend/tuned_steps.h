// Steps for which `nibble tune` chose other kernels than the kernel table: kernels that the table has for
// other numbers of rows. The choice changes no bit of a result.
#pragma once

namespace nibble {

// Applies to steps with from_rows to to_rows rows. For attention and lm_head, such a step runs the kernels
// that the kernel table lists for `attention` rows. For router and experts, it runs the kernels that the
// table lists for `experts` rows.
struct TunedSteps {
  int from_rows{0}, to_rows{0};
  int attention{0}, experts{0};
  friend bool operator==(const TunedSteps&, const TunedSteps&) = default;
};

}  // namespace nibble
