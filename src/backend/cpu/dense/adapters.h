// Updates of dense matrices by the adapters that rows use: y[t] += B (A x[t]). Both products, and the sum
// with W x[t] + b, are in float32, in an order that depends on neither the other rows nor the other adapters.
// x is never rounded to int8. Memory traffic: A and B once per row (20b, rank 16: 1.3 MB per layer).
#pragma once

#include <optional>
#include <span>

#include "backend/cpu/batch_row.h"
#include "core/tensors/view.h"
#include "model/adapter/request_adapter.h"

namespace nibble::cpu {

inline constexpr int kMatricesAtOnce{3};  // q, k and v, which multiply the same x

// Returns copies of the adapters in which the columns of each A are in split order (isa/kernels.h).
RequestAdapters in_split_order(const RequestAdapters& adapters);
size_t num_bytes_in_split_order(const RequestAdapters& adapters);

struct StepAdapters {  // the adapters of a step's rows
  std::span<const BatchRow> rows{};
  std::span<const RequestAdapter> adapters{};  // in split order; empty: no row uses one
  View<float, 3> products{};                   // [T, kMatricesAtOnce, largest rank], scratch: A x

  bool has_any() const { return !adapters.empty(); }
  const RequestAdapter* of(ptrdiff_t t) const {
    if (!has_any()) return nullptr;
    const auto& adapter = rows[static_cast<size_t>(t)].run->adapter;
    return adapter ? &adapters[static_cast<size_t>(*adapter)] : nullptr;
  }
};

using UpdateOfLayer = std::optional<DenseUpdate> LayerUpdates::*;

struct LayerAdapters {  // the adapters of a step's rows, for one layer
  StepAdapters step{};
  size_t layer{0};

  const DenseUpdate* find(ptrdiff_t t, UpdateOfLayer matrix) const {
    const RequestAdapter* adapter = step.of(t);
    return adapter && adapter->layers[layer].*matrix ? &*(adapter->layers[layer].*matrix) : nullptr;
  }
  // Stores A x of row t in step.products, at [t, which]. Does nothing if the row's adapter does not update
  // the matrix.
  void multiply(ptrdiff_t t, UpdateOfLayer matrix, const float* x, ptrdiff_t which = 0) const;
  // Adds elements [first, first + y.size()) of the update of row t to `y`. Call it after multiply().
  void add(ptrdiff_t t, UpdateOfLayer matrix, ptrdiff_t first, std::span<float> y, ptrdiff_t which = 0) const;
};

// Stores A x in `product` [update.rank]; x in split order.
void multiply_a(const DenseUpdate& update, const float* x, float* product);
// Adds elements [first, first + y.size()) of B `product` to `y`.
void add_b(const DenseUpdate& update, const float* product, ptrdiff_t first, std::span<float> y);

}  // namespace nibble::cpu
