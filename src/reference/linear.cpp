#include "reference/linear.h"

#include <vector>

#include "reference/threads.h"
#include "reference/weight_row.h"

namespace nibble::reference {
namespace {

struct Product {  // the product W x + b; `rounding` is applied to x
  View<const float, 2> x;
  const Matrix& weight;
  const Vector& bias;
  Rounding rounding;
};

// Calls store(t, o, W[o] x[t] + b[o]) for all tokens t and outputs o. Decodes each row of weights once.
template <typename Store>
void for_each_output(const Product& product, ThreadPool* pool, Store store) {
  const View<const float, 2> x = product.x;
  const Matrix& weight = product.weight;
  const Vector& bias = product.bias;
  if (takes_int8(product.rounding, weight)) {
    const auto rounded = rounded_to_int8(x);
    return for_each_output({rounded, weight, bias, Rounding{}}, pool, store);
  }
  NIBBLE_CHECK(x.shape[1] == weight.cols, "x [T, {}], weight [{}, {}]", x.shape[1], weight.rows, weight.cols);
  NIBBLE_CHECK(bias.count == 0 || bias.count == weight.rows, "bias [{}], weight [{}, {}]", bias.count,
               weight.rows, weight.cols);
  const ptrdiff_t num_products = x.shape[0] * weight.rows * weight.cols;
  const ptrdiff_t cols = weight.cols;
  std::vector<float> decoded(cols * (pool ? pool->num_threads() : 1));  // one decoded row for each thread
  for_each(pool, weight.rows, num_products, [&](ptrdiff_t o, int thread) {
    float* row = &decoded[thread * cols];
    decode_row(weight, o, row);
    const double b = bias.count > 0 ? double{bias[o]} : 0.0;
    for (ptrdiff_t t = 0; t < x.shape[0]; ++t) store(t, o, dot(row, x.row(t), cols) + b);
  });
}

}  // namespace

void linear(const LinearArgs& args) {
  const View<float, 2> y = args.y;
  NIBBLE_CHECK(y.shape[0] == args.x.shape[0] && y.shape[1] == args.weight.rows,
               "y [{}, {}], x [{}, in], weight [{}, in]", y.shape[0], y.shape[1], args.x.shape[0],
               args.weight.rows);
  const AdaptedRows adapted(args.updates, args.x, args.weight.rows);
  for_each_output({args.x, args.weight, args.bias, args.rounding}, args.pool,
                  [&](ptrdiff_t t, ptrdiff_t o, double value) {
                    y(t, o) = static_cast<float>(adapted.sum(t, o, value));
                  });
}

void project(const ProjectArgs& args) {
  const View<float, 2> x = args.x;
  NIBBLE_CHECK(x.shape[0] == args.attended.shape[0] && x.shape[1] == args.weight.rows,
               "x [{}, {}], attended [{}, in], weight [{}, in]", x.shape[0], x.shape[1],
               args.attended.shape[0], args.weight.rows);
  const AdaptedRows adapted(args.updates, args.attended, args.weight.rows);
  for_each_output({args.attended, args.weight, args.bias, args.rounding}, args.pool,
                  [&](ptrdiff_t t, ptrdiff_t o, double value) {
                    x(t, o) = static_cast<float>(x(t, o) + adapted.sum(t, o, value));
                  });
}

}  // namespace nibble::reference
