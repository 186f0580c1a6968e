// An array that owns its elements and starts as zeros. Converts to a View, which stays valid if the array
// is moved.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

#include "core/tensors/view.h"

namespace nibble::reference {

template <typename T, int rank>
class Array {
 public:
  explicit Array(std::array<ptrdiff_t, rank> shape)
      : elements_(std::accumulate(shape.begin(), shape.end(), ptrdiff_t{1}, std::multiplies<>())),
        view_(elements_.data(), shape) {}
  Array(Array&&) noexcept = default;
  Array& operator=(Array&&) noexcept = default;

  View<T, rank> view() const { return view_; }
  operator View<T, rank>() const { return view_; }
  operator View<const T, rank>() const { return view_; }

 private:
  std::vector<T> elements_;
  View<T, rank> view_;
};

}  // namespace nibble::reference
