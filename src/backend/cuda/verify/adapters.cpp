// Checks of the kernels that add the updates of adapters to dense products.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "backend/cuda/dense/adapters.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/verify/checks.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/values.h"

namespace nibble::cuda::verify {
namespace {

constexpr int kAdapters{3};
// Ranks around the eight rows of A that a CTA of the first kernel handles.
constexpr int kRanks[]{1, 3, 8, 9, 16, 33, 256};

struct TestUpdate {
  TestUpdate(const Case& c, int rank, int rows, int cols, uint64_t seed)
      : rank(rank),
        a(random_floats(c.values, seed, size_t{1} * rank * cols)),
        b(random_floats(c.values, seed + 1, size_t{1} * rank * rows)),
        device_a(a),
        device_b(b) {}

  int rank;
  std::vector<float> a, b;  // [rank, cols]; [rank, rows]
  DeviceArray<float> device_a, device_b;
};

// The matrices of a case: q, k and v; or o; or lm_head, whose rows of x are only some rows of the step.
struct Matrices {
  explicit Matrices(const Case& c)
      : kind(static_cast<int>(c.seed / 100 % 3)),
        cols(kind == 1 ? c.shape.num_heads * kHeadDim : c.shape.hidden),
        rows(kind == 0   ? std::vector{c.shape.num_heads * kHeadDim, c.shape.num_kv_heads * kHeadDim,
                                     c.shape.num_kv_heads * kHeadDim}
             : kind == 1 ? std::vector{c.shape.hidden}
                         : std::vector{c.shape.vocab}) {
    for (const int count : rows) num_columns += count;
  }

  bool selects_rows() const { return kind == 2; }

  int kind, cols;
  std::vector<int> rows;
  int num_columns{0};
};

// Three adapters: the first changes all matrices, the second only the last one, the third none.
class TestAdapters {
 public:
  TestAdapters(const Case& c, const Matrices& matrices) : count_(matrices.rows.size()) {
    for (int adapter = 0; adapter < kAdapters; ++adapter)
      for (size_t which = 0; which < count_; ++which) {
        const bool has_update = adapter == 0 || (adapter == 1 && which + 1 == count_);
        auto& update = updates_.emplace_back();
        if (!has_update) continue;
        const size_t number = updates_.size();
        const int rank = kRanks[(c.seed / 300 + 3 * number) % std::size(kRanks)];
        update.emplace(c, rank, matrices.rows[which], matrices.cols, c.seed + 60 + 2 * number);
        most_rank_ = std::max(most_rank_, rank);
      }
    std::vector<AdapterUpdate> table;
    for (const auto& update : updates_)
      table.push_back(update ? AdapterUpdate{update->device_a.data(), update->device_b.data(), update->rank}
                             : AdapterUpdate{});
    table_.emplace(table);
  }

  const AdapterUpdate* table() const { return table_->data(); }
  int most_rank() const { return most_rank_; }
  // Returns an adapter's update of a matrix, or null.
  const TestUpdate* find(int adapter, size_t which) const {
    const auto& update = updates_[adapter * count_ + which];
    return update ? &*update : nullptr;
  }

 private:
  size_t count_;
  std::vector<std::optional<TestUpdate>> updates_;  // [adapters, matrices]
  std::optional<DeviceArray<AdapterUpdate>> table_;
  int most_rank_{0};
};

// A number in double precision, and the largest error of a kernel's float32 number. `magnitude`: the sum of
// the magnitudes of its terms.
struct Bounded {
  double number{0}, bound{0};
};

constexpr double kUnderflow{0x1p-148};  // largest error of a product that underflows, and of its sum

// Returns A x for each row of A. A kernel rounds each term once, and then rounds at most one sum for each of
// a lane's iterations, 4 in the four terms of an iteration, and 5 between the lanes.
std::vector<Bounded> shrunk(const TestUpdate& update, const uint16_t* x, int cols) {
  std::vector<Bounded> products(update.rank);
  for (int k = 0; k < update.rank; ++k) {
    double magnitude = 0;
    for (int col = 0; col < cols; ++col) {
      const double term = double{update.a[size_t{1} * k * cols + col]} * double{float_of(x[col])};
      products[k].number += term;
      magnitude += std::abs(term);
    }
    products[k].bound = (cols / 128 + 12) * 0x1p-24 * magnitude + cols * kUnderflow;
  }
  return products;
}

// Returns y + B products for one row of the matrix.
Bounded expanded(const TestUpdate& update, const std::vector<Bounded>& products, int num_rows, int row,
                 double y) {
  double sum = 0, magnitude = 0, bound = 0;
  for (int k = 0; k < update.rank; ++k) {
    const double b = update.b[size_t{1} * k * num_rows + row];
    sum += b * products[k].number;
    magnitude += std::abs(b) * (std::abs(products[k].number) + products[k].bound);
    bound += std::abs(b) * products[k].bound;
  }
  bound += (update.rank + 2) * 0x1p-24 * magnitude + update.rank * kUnderflow;
  return {y + sum, bound + 0x1p-24 * (std::abs(y + sum) + bound)};
}

// Input and output of the launches in GPU memory. Every fourth row of the step uses no adapter.
struct Rows {
  Rows(const Case& c, const Matrices& matrices)
      : is_image(c.seed / 100 % 2),
        x(random_bf16(c.values, c.seed + 50, size_t{1} * c.num_tokens * matrices.cols)),
        device_x(is_image ? to_image(x, matrices.cols) : x),
        stride(matrices.num_columns + 5),
        y(random_floats(c.values, c.seed + 51, size_t{1} * c.num_tokens * stride)),
        device_y(y) {
    const int num_rows = c.num_tokens + (matrices.selects_rows() ? 3 : 0);
    for (int row = 0; row < num_rows; ++row)
      adapters.push_back(row % 4 == 3 ? OptionalIndex::none() : OptionalIndex::of(row % 4));
    for (int n = 0; n < c.num_tokens; ++n)
      rows.push_back(matrices.selects_rows() ? (7 * n + 1) % num_rows : n);
    device_adapters.emplace(adapters);
    device_rows.emplace(rows);
  }

  OptionalIndex adapter(int n) const { return adapters[rows[n]]; }

  bool is_image;
  std::vector<uint16_t> x;
  DeviceArray<uint16_t> device_x;
  int stride;
  std::vector<float> y;
  DeviceArray<float> device_y;
  std::vector<OptionalIndex> adapters;
  std::vector<int> rows;
  std::optional<DeviceArray<OptionalIndex>> device_adapters;
  std::optional<DeviceArray<int>> device_rows;
};

void run(const Subject& subject, const AddUpdatesArgs& args) {
  check(cudaDeviceSynchronize(), "preparing a check");
  add_updates(subject.gpu, Operation::kProject, args);
  wait_for_stream(subject.stream(), "checking adapters");
}

struct TestStep {
  explicit TestStep(const Case& c) : matrices(c), adapters(c, matrices), rows(c, matrices) {}

  Matrices matrices;
  TestAdapters adapters;
  Rows rows;
};

// `actual`: row n of y.
void compare_row(Comparison& comparison, const TestStep& step, int n, const float* actual) {
  const auto& [matrices, adapters, rows] = step;
  const float* const before = rows.y.data() + size_t{1} * n * rows.stride;
  const OptionalIndex adapter = rows.adapter(n);
  int first = 0;  // column of y
  for (size_t which = 0; which < matrices.rows.size(); first += matrices.rows[which++]) {
    const TestUpdate* update = adapter.has_value() ? adapters.find(adapter.value(), which) : nullptr;
    std::vector<Bounded> products;
    if (update) products = shrunk(*update, rows.x.data() + size_t{1} * n * matrices.cols, matrices.cols);
    for (int row = 0; row < matrices.rows[which]; ++row) {
      const int column = first + row;
      if (!update) {
        comparison.equal("y without an update", n, column, actual[column], before[column]);
        continue;
      }
      const auto [number, bound] = expanded(*update, products, matrices.rows[which], row, before[column]);
      comparison.near({"y", n, column}, actual[column], number, bound);
    }
  }
  for (int column = first; column < rows.stride; ++column)
    comparison.equal("y after its last column", n, column, actual[column], before[column]);
}

// Runs the last row alone. Requires the bits that the row has among the others.
void compare_alone(Comparison& comparison, const Subject& subject, const Rows& rows, AddUpdatesArgs args,
                   const std::vector<float>& together) {
  const int n = args.rows.count - 1;
  const size_t first = size_t{1} * n * rows.stride, last = first + rows.stride;
  const DeviceArray<float> y(std::vector<float>(rows.y.begin() + first, rows.y.begin() + last));
  const DeviceArray<int> row(std::vector<int>{rows.rows[n]});
  const size_t cols = args.matrices.cols;
  const DeviceArray<uint16_t> x(std::vector<uint16_t>(rows.x.begin() + n * cols, rows.x.end()));
  args.x = bf16(x);
  args.rows.rows = row.data();
  args.rows.count = 1;
  args.y = y.data();
  run(subject, args);
  const std::vector<float> alone = y.read(comparison, "y of a row alone");
  for (size_t i = 0; i < alone.size(); ++i)
    comparison.equal("bits of a row alone", n, static_cast<int>(i), alone[i], together[first + i]);
}

void check_updates(Comparison& comparison, const Subject& subject, const Case& c) {
  const TestStep step(c);
  const auto& [matrices, adapters, rows] = step;
  const DeviceArray<float> products(size_t{1} * c.num_tokens * matrices.rows.size() * adapters.most_rank());
  AddUpdatesArgs args{
      {adapters.table(), static_cast<int>(matrices.rows.size()), {}, matrices.cols, adapters.most_rank()},
      {rows.device_adapters->data(), matrices.selects_rows() ? rows.device_rows->data() : nullptr,
       c.num_tokens},
      rows_or_image(bf16(rows.device_x), rows.is_image ? whole_eights(c.num_tokens) : 0),
      products.data(),
      rows.device_y.data(),
      rows.stride};
  std::ranges::copy(matrices.rows, args.matrices.num_rows);
  run(subject, args);
  products.read(comparison, "products");
  const std::vector<float> actual = rows.device_y.read(comparison, "y");
  for (int n = 0; n < c.num_tokens; ++n)
    compare_row(comparison, step, n, actual.data() + size_t{1} * n * rows.stride);
  compare_alone(comparison, subject, rows, args, actual);
}

}  // namespace

KernelFinding check_adapters(const Target& target, const CaseLimits& limits) {
  constexpr KernelRow kAnyNumberOfRows{};
  return check_cases(kAnyNumberOfRows, target, limits, check_updates);
}

}  // namespace nibble::cuda::verify
