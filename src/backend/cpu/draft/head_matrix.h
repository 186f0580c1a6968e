// A matrix of a draft head, and its product with some rows. By default it is held in MXFP4, if its rows are
// whole blocks. A head only guesses, and the cost of a draft is the bytes that it reads: with a quarter of
// the bytes, hardly fewer drafts are accepted (figures in docs/speculation.md).
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
  // `format`: kMxfp4, or kBf16 for a matrix that stays as stored. `int8`: activations of MXFP4 are int8, like
  // those of the model, if the matrix makes whole strips. Throws InputError if no kernel reads the stored
  // format; `source` is for the message.
  HeadMatrix(const Matrix& matrix, Format format, const Machine& machine, bool int8,
             const std::string& source);
  int rows() const { return matrix_.rows; }
  // Computes y = W x for each row. x [T, cols*] is in split order, y [T, rows] in natural order.
  void multiply(const Machine& machine, View<const float, 2> x, View<float, 2> y) const;

 private:
  Matrix matrix_;
  std::shared_ptr<const Buffer> storage_{};
  std::optional<PackedMatrix> strips_{};
};

}  // namespace nibble::cpu
