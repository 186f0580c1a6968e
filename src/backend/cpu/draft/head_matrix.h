// A matrix of a draft head, and its product with some rows. A head only guesses, so its matrices are held in MXFP4, where their rows are
// whole blocks, unless told otherwise: a draft costs what is read for it, and a quarter of the bytes costs few right drafts
// (docs/speculation.md has figures).
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
  // `format`: kMxfp4, or kBf16 for a matrix that stays as it is stored. `int8`: activations of MXFP4 are int8, as those of the model are,
  // where the matrix makes whole strips. Throws InputError where there is no kernel for what is stored; `source` is for the message.
  HeadMatrix(const Matrix& matrix, Format format, const Machine& machine, bool int8,
             const std::string& source);
  int rows() const { return matrix_.rows; }
  // y = W x for each row. x [T, cols*] is in split order, y [T, rows] in natural order.
  void multiply(const Machine& machine, View<const float, 2> x, View<float, 2> y) const;

 private:
  Matrix matrix_;
  std::shared_ptr<const Buffer> storage_{};
  std::optional<PackedMatrix> strips_{};
};

}  // namespace nibble::cpu
