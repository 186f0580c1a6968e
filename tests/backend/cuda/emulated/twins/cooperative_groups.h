// C++ version of the part of cooperative groups that the kernels use. reduce() adds in the original's order.
#pragma once

namespace cooperative_groups {

struct thread_block {};
inline thread_block this_thread_block() { return {}; }
template <int lanes>
struct Tile {};
template <int lanes>
Tile<lanes> tiled_partition(thread_block) {
  return {};
}
template <typename T>
struct plus {
  T operator()(T a, T b) const { return a + b; }
};

}  // namespace cooperative_groups
