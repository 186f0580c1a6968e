// Updates of linear layers by the adapters that rows use: y[t] += B (A x[t]), in double like the product.
#pragma once

#include <span>
#include <vector>

#include "core/tensors/view.h"
#include "model/adapter/request_adapter.h"
#include "reference/kv_cache.h"

namespace nibble::reference {

// The update of one matrix for each row of a step; null for rows without one. Empty: no row has one.
using RowUpdates = std::vector<const DenseUpdate*>;

// Returns the updates of the unembedding for the output rows `outputs`, which are indices into `rows`.
RowUpdates unembedding_updates(std::span<const BatchRow> rows, std::span<const int> outputs,
                               std::span<const RequestAdapter> adapters);

struct LayerAdapters {  // the adapters of a step's rows in one layer
  std::span<const BatchRow> rows{};
  std::span<const RequestAdapter> adapters{};
  size_t layer{0};

  RowUpdates updates(std::optional<DenseUpdate> LayerUpdates::*matrix) const;
};

// The products A x[t] of the rows that have an update.
class AdaptedRows {
 public:
  // x [T, in]. `num_outputs`: rows of the updated matrix, which the updates must match.
  AdaptedRows(const RowUpdates& updates, View<const float, 2> x, ptrdiff_t num_outputs);

  // Returns `value` plus element `o` of row t's update. Returns `value` itself for rows without an update.
  double sum(ptrdiff_t t, ptrdiff_t o, double value) const;

 private:
  const RowUpdates& updates_;
  std::vector<std::vector<double>> products_;  // [T][rank]; empty for rows without an update
};

}  // namespace nibble::reference
