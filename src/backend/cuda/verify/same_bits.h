// Compares results of wgmma kernels with results of mma.sync kernels. On all GPUs that were measured, the
// results have equal bits.
#pragma once

#include <cstring>
#include <vector>

#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/shapes.h"

namespace nibble::cuda::verify {

// Returns the mma.sync kernel that does the same work as the wgmma kernel `row`; null for other kernels.
const KernelRow* row_by_mma(const KernelRow& row);

// Compares the bits of numbers of up to 4 bytes, in rows of `cols` numbers.
template <typename T>
void compare_bits(Comparison& comparison, const char* what, int cols, const std::vector<T>& actual,
                  const std::vector<T>& expected) {
  const auto bits = [](T value) {
    uint32_t all = 0;
    std::memcpy(&all, &value, sizeof value);
    return double{static_cast<double>(all)};
  };
  for (size_t i = 0; i < expected.size(); ++i)
    comparison.equal(what, i / cols, i % cols, bits(actual[i]), bits(expected[i]));
}

// A kernel's results: rows of `cols` numbers in GPU memory (`out`), and their copy on the host (`values`).
template <typename T>
struct RowResult {
  const char* what;
  int cols;
  const DeviceArray<T>& out;
  const std::vector<T>& values;
};
template <typename T>
RowResult(const char*, int, const DeviceArray<T>&, const std::vector<T>&) -> RowResult<T>;

// If the kernel uses wgmma, also runs the mma.sync kernel with `args`, and compares the bits of both results.
template <typename Args, typename T>
void compare_with_mma(Comparison& comparison, const Subject& subject, const Args& args,
                      const RowResult<T>& result) {
  const KernelRow* row = row_by_mma(subject.row);
  if (!row) return;
  result.out.poison();
  Subject{*row, subject.gpu}.run("multiplying by mma.sync", args);
  auto by_mma = result.out.read(comparison, result.what);
  by_mma.resize(result.values.size());
  compare_bits(comparison, result.what, result.cols, result.values, by_mma);
}

}  // namespace nibble::cuda::verify
