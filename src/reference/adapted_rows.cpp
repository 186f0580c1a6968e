#include "reference/adapted_rows.h"

#include <algorithm>

#include "core/errors/check.h"
#include "reference/weight_row.h"

namespace nibble::reference {
namespace {

const RequestAdapter* adapter_of(const BatchRow& row, std::span<const RequestAdapter> adapters) {
  if (!row.adapter) return nullptr;
  const auto index = static_cast<size_t>(*row.adapter);
  NIBBLE_CHECK(index < adapters.size(), "adapter {} of {}", index, adapters.size());
  return &adapters[index];
}

const DenseUpdate* if_set(const std::optional<DenseUpdate>& update) { return update ? &*update : nullptr; }

// Returns no updates if all are null.
RowUpdates or_none(RowUpdates updates) {
  const bool has_any = std::ranges::any_of(updates, [](const DenseUpdate* update) { return update; });
  return has_any ? updates : RowUpdates{};
}

}  // namespace

RowUpdates unembedding_updates(std::span<const BatchRow> rows, std::span<const int> outputs,
                               std::span<const RequestAdapter> adapters) {
  RowUpdates updates;
  for (const int output : outputs) {
    const RequestAdapter* adapter = adapter_of(rows[static_cast<size_t>(output)], adapters);
    updates.push_back(adapter ? if_set(adapter->unembedding) : nullptr);
  }
  return or_none(std::move(updates));
}

RowUpdates LayerAdapters::updates(std::optional<DenseUpdate> LayerUpdates::*matrix) const {
  RowUpdates updates;
  for (const BatchRow& row : rows) {
    const RequestAdapter* adapter = adapter_of(row, adapters);
    updates.push_back(adapter ? if_set(adapter->layers[layer].*matrix) : nullptr);
  }
  return or_none(std::move(updates));
}

AdaptedRows::AdaptedRows(const RowUpdates& updates, View<const float, 2> x, ptrdiff_t num_outputs)
    : updates_(updates) {
  if (updates.empty()) return;
  NIBBLE_CHECK(std::ssize(updates) == x.shape[0], "updates of {} rows, x [{}, in]", updates.size(),
               x.shape[0]);
  products_.resize(updates.size());
  for (size_t t = 0; t < updates.size(); ++t) {
    if (!updates[t]) continue;
    const auto& [rank, a, b] = *updates[t];
    NIBBLE_CHECK(std::ssize(a) == rank * x.shape[1] && std::ssize(b) == rank * num_outputs,
                 "an update of rank {} with {} and {} elements, x [T, {}], y [T, {}]", rank, a.size(),
                 b.size(), x.shape[1], num_outputs);
    for (ptrdiff_t k = 0; k < rank; ++k)
      products_[t].push_back(
          dot(&a[static_cast<size_t>(k * x.shape[1])], x.row(static_cast<ptrdiff_t>(t)), x.shape[1]));
  }
}

double AdaptedRows::sum(ptrdiff_t t, ptrdiff_t o, double value) const {
  if (products_.empty() || products_[static_cast<size_t>(t)].empty()) return value;
  const std::vector<double>& of_a = products_[static_cast<size_t>(t)];
  const float* b = &updates_[static_cast<size_t>(t)]->b[static_cast<size_t>(o) * of_a.size()];
  for (const double product : of_a) value += double{*b++} * product;
  return value;
}

}  // namespace nibble::reference
