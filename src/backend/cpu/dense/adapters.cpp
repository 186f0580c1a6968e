#include "backend/cpu/dense/adapters.h"

#include "backend/cpu/split_order.h"

namespace nibble::cpu {
namespace {

// Number of columns of the updated matrix.
ptrdiff_t num_cols(const DenseUpdate& update) { return std::ssize(update.a) / update.rank; }

void split(DenseUpdate& update) {
  const ptrdiff_t cols = num_cols(update), width = padded(cols);
  std::vector<float> a(static_cast<size_t>(update.rank * width));  // the padding is zero
  for (ptrdiff_t k = 0; k < update.rank; ++k)
    for (ptrdiff_t c = 0; c < cols; ++c)
      a[static_cast<size_t>(k * width + split_index(c))] = update.a[static_cast<size_t>(k * cols + c)];
  update.a = std::move(a);
}

}  // namespace

RequestAdapters in_split_order(const RequestAdapters& adapters) {
  RequestAdapters all = adapters;
  for (RequestAdapter& adapter : all) {
    for (LayerUpdates& layer : adapter.layers)
      for (auto* update : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.router})
        if (*update) split(**update);
    if (adapter.unembedding) split(*adapter.unembedding);
  }
  return all;
}

size_t num_bytes_in_split_order(const RequestAdapters& adapters) {
  size_t bytes = num_bytes(adapters);
  for (const RequestAdapter& adapter : adapters)
    for_each_update(adapter, [&](const DenseUpdate& update) {
      const ptrdiff_t padding = padded(num_cols(update)) - num_cols(update);
      bytes += static_cast<size_t>(update.rank * padding) * sizeof(float);
    });
  return bytes;
}

void LayerAdapters::multiply(ptrdiff_t t, UpdateOfLayer matrix, const float* x, ptrdiff_t which) const {
  if (const DenseUpdate* update = find(t, matrix)) multiply_a(*update, x, step.products.row(t, which));
}

void LayerAdapters::add(ptrdiff_t t, UpdateOfLayer matrix, ptrdiff_t first, std::span<float> y,
                        ptrdiff_t which) const {
  if (const DenseUpdate* update = find(t, matrix)) add_b(*update, step.products.row(t, which), first, y);
}

void multiply_a(const DenseUpdate& update, const float* x, float* product) {
  constexpr ptrdiff_t kSums{16};  // partial sums, for vector instructions
  static_assert(kBlock % kSums == 0);
  const ptrdiff_t width = num_cols(update);
  const float* a = update.a.data();
  for (int k = 0; k < update.rank; ++k, a += width) {
    float sums[kSums]{};
    for (ptrdiff_t c = 0; c < width; c += kSums)
      for (ptrdiff_t s = 0; s < kSums; ++s) sums[s] += a[c + s] * x[c + s];
    product[k] = 0;
    for (const float part : sums) product[k] += part;
  }
}

void add_b(const DenseUpdate& update, const float* product, ptrdiff_t first, std::span<float> y) {
  const float* b = &update.b[static_cast<size_t>(first * update.rank)];
  for (float& element : y) {
    float sum = 0;
    for (int k = 0; k < update.rank; ++k) sum += b[k] * product[k];
    element += sum;
    b += update.rank;
  }
}

}  // namespace nibble::cpu
