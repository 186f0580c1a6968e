// Kernels of a GPU's steps as `nibble tune` chose them: those that the kernel table has for other numbers of
// rows. They change no bit of a result.
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
