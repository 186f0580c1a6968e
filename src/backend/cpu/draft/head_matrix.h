// A matrix of a draft head, and its product with some rows. A matrix whose rows are whole blocks is stored in
// MXFP4 by default: the time of a draft is proportional to the bytes read, MXFP4 has a quarter of BF16's
// bytes, and hardly fewer drafts are accepted (docs/speculation.md).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backend/cpu/machine.h"
#include "backend/cpu/packed_matrix.h"
#include "core/tensors/view.h"
#include "model/quantize.h"
#include "model/weights.h"

namespace nibble::cpu {

class HeadMatrix {
 public:
  // `format`: kMxfp4 to convert, or kBf16 to keep the stored format. `int8`: whether an MXFP4 matrix of whole
  // strips takes int8 activations. Throws an InputError that names `source` if no kernel reads the stored
  // format.
  HeadMatrix(const Matrix& matrix, Format format, const Machine& machine, bool int8,
             const std::string& source);
  int rows() const { return matrix_.rows; }
  // Computes y = W x for each row. x: [T, cols*] in split order; y: [T, rows] in natural order.
  void multiply(const Machine& machine, View<const float, 2> x, View<float, 2> y) const;

 private:
  Matrix matrix_;
  std::shared_ptr<const Buffer> storage_{};
  std::optional<PackedMatrix> strips_{};
};

}  // namespace nibble::cpu
