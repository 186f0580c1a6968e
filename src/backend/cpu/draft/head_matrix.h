// A matrix of a draft head and its product with some rows. It is held in MXFP4 by default, if its rows are
// whole blocks: a draft costs the bytes that are read, and with a quarter of the bytes of BF16 hardly fewer
// drafts are accepted (figures in docs/speculation.md).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/machine.h"
#include "backend/cpu/packed_matrix.h"
#include "core/view.h"
#include "model/quantize.h"
#include "model/weights.h"

namespace nibble::cpu {

class HeadMatrix {
 public:
  // `format`: kMxfp4, or kBf16 to keep the stored format. `int8`: int8 activations for MXFP4 in whole strips.
  // Throws InputError, which names `source`, if no kernel reads the stored format.
  HeadMatrix(const Matrix& matrix, Format format, const Machine& machine, bool int8,
             const std::string& source);
  int rows() const { return matrix_.rows; }
  // y = W x for each row: x [T, cols*] in split order, y [T, rows] in natural order.
  void multiply(const Machine& machine, View<const float, 2> x, View<float, 2> y) const;

 private:
  Matrix matrix_;
  std::shared_ptr<const Buffer> storage_{};
  std::optional<PackedMatrix> strips_{};
};

}  // namespace nibble::cpu
