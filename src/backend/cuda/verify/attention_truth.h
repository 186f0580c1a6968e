// Expected results of attention, in double precision: rotated q and k, and the softmax with its sink.
#pragma once

#include <vector>

#include "backend/cuda/verify/cache.h"
#include "backend/cuda/verify/values.h"
#include "model/rope.h"

namespace nibble::cuda::verify {

// Queries are multiplied by 1 / sqrt(D) for D = 64, times log2(e), because exponentials have base 2.
inline constexpr double kQueryFactor{1.4426950408889634 / 8};

// q, k and v of every row, rounded to the kernels' formats; q and k are rotated by the row's position.
class RotatedRows {
 public:
  RotatedRows(const AttendCase& c, std::vector<Rounded> numbers)
      : num_heads_(c.num_heads),
        num_kv_heads_(c.num_kv_heads),
        width_(c.width()),
        numbers_(std::move(numbers)) {}

  const Rounded* query(size_t row, int head) const { return of(row, head); }
  const Rounded* key_or_value(size_t row, int kv_head, int which) const {
    return of(row, num_heads_ + which * num_kv_heads_ + kv_head);
  }
  void put_into(TestCache& cache) const;

 private:
  const Rounded* of(size_t row, int head) const { return numbers_.data() + row * width_ + head * kHeadDim; }

  int num_heads_, num_kv_heads_, width_;
  std::vector<Rounded> numbers_;  // [rows, width]: q, k and v of each row
};
RotatedRows rotated_rows(const AttendCase& c, const std::vector<CacheRow>& rows,
                         const std::vector<float>& parts, const RopeFrequencies& rope);

struct Attended {
  double value, bound;
};
// Returns expected outputs [rows, heads, D] and their bounds. The cache must hold all keys and values. Keys
// and values that attend() itself writes may differ by Rounded::slack; all others are exact.
std::vector<Attended> attended(const AttendCase& c, const TestCache& cache, const RotatedRows& rotated,
                               const std::vector<float>& sinks);

}  // namespace nibble::cuda::verify
