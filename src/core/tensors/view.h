// A non-owning pointer to elements, with shape and strides: a plain value that kernels take as an argument.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

namespace nibble {

template <typename T, int rank>
struct View {
  T* data = nullptr;
  std::array<ptrdiff_t, rank> shape{};   // extent of each axis, outermost first
  std::array<ptrdiff_t, rank> stride{};  // distance of neighbours on each axis, in elements

  View() = default;
  // Makes a row-major view without gaps.
  View(T* elements, std::array<ptrdiff_t, rank> extents) : data(elements), shape(extents) {
    ptrdiff_t step = 1;
    for (int axis = rank - 1; axis >= 0; --axis) {
      stride[static_cast<size_t>(axis)] = step;
      step *= shape[static_cast<size_t>(axis)];
    }
  }
  operator View<const T, rank>() const requires(!std::is_const_v<T>) {
    View<const T, rank> view;
    view.data = data;
    view.shape = shape;
    view.stride = stride;
    return view;
  }

  template <typename... Index>
  requires(sizeof...(Index) == rank) T& operator()(Index... index) const {
    ptrdiff_t offset = 0;
    size_t axis = 0;
    ((offset += static_cast<ptrdiff_t>(index) * stride[axis++]), ...);
    return data[offset];
  }
  // Pointer to one row: all axes except the last are indexed. The last axis must have stride 1.
  template <typename... Index>
  requires(sizeof...(Index) == rank - 1) T* row(Index... index) const { return &(*this)(index..., 0); }
};

static_assert(std::is_trivially_copyable_v<View<float, 2>>);

}  // namespace nibble
