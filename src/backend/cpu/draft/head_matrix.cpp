#include "backend/cpu/draft/head_matrix.h"

#include <algorithm>

#include "backend/cpu/activations.h"
#include "backend/cpu/dense/dot.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/q8.h"
#include "core/errors/error.h"

namespace nibble::cpu {

HeadMatrix::HeadMatrix(const Matrix& matrix, Format format, const Machine& machine, bool int8,
                       const std::string& source)
    : matrix_(matrix) {
  const bool is_mxfp4 = !matrix.blocks() && matrix.format() == Format::kMxfp4;
  if (format != Format::kMxfp4 || matrix.cols % kBlock != 0 || is_mxfp4) {
    if (!std::holds_alternative<Elements>(matrix.stored) || !machine.kernels.dot(matrix.format()))
      throw InputError(
          "{}: a matrix of the draft head is {}, for which the CPU backend has no kernel: try "
          "--draft-head-dtype mxfp4",
          source, stored_name(matrix));
    return;
  }
  QuantisedMatrix quantised = quantise(matrix, Format::kMxfp4, machine.pool);
  matrix_ = quantised.matrix;
  const StripRow* strip = machine.kernels.strip(Format::kMxfp4);
  if (int8 && strip && is_packable(matrix_, strip->strip_rows)) {
    strips_ = pack(matrix_, 1, strip->strip_rows, /*is_mapped=*/false, machine.pool);
    matrix_.stored = {};
  } else {
    storage_ = std::make_shared<const Buffer>(std::move(quantised.storage));
  }
}

void HeadMatrix::multiply(const Machine& machine, View<const float, 2> x, View<float, 2> y) const {
  const ptrdiff_t num_tokens = x.shape[0], num_blocks = matrix_.cols / kBlock;
  std::vector<Q8Block> blocks(strips_ ? static_cast<size_t>(num_tokens * num_blocks) : 0);
  if (strips_)
    for_each(machine, num_tokens, static_cast<double>(num_tokens * matrix_.cols), [&](ptrdiff_t t, int) {
      to_q8(x.row(t), matrix_.cols, &blocks[static_cast<size_t>(t * num_blocks)]);
    });
  const ptrdiff_t panel_rows = machine.panel_rows(num_tokens);
  const double work = 1.0 * matrix_.rows * matrix_.cols * static_cast<double>(num_tokens);
  for_each(machine, (matrix_.rows + panel_rows - 1) / panel_rows, work, [&](ptrdiff_t item, int) {
    const ptrdiff_t first_row = item * panel_rows;
    const float* rows[kTokenBlock];
    const Q8Block* rows_q8[kTokenBlock];
    for (ptrdiff_t first = 0; first < num_tokens; first += kTokenBlock) {
      const ptrdiff_t count = std::min<ptrdiff_t>(kTokenBlock, num_tokens - first);
      View<float, 2> panel = y;
      panel.data = y.row(first) + first_row;
      panel.shape = {count, std::min<ptrdiff_t>(panel_rows, matrix_.rows - first_row)};
      for (ptrdiff_t t = 0; t < count; ++t) {
        rows[t] = x.row(first + t);
        if (strips_) rows_q8[t] = &blocks[static_cast<size_t>((first + t) * num_blocks)];
      }
      if (strips_)
        dot(machine.kernels, StripPanelArgs{*strips_, 0, first_row, rows_q8, panel});
      else
        dot(machine.kernels, PanelArgs{matrix_, first_row, rows, panel});
    }
  });
}

}  // namespace nibble::cpu
