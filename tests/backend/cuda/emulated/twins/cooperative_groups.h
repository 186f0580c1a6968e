// Of cooperative groups what the kernels use, in their order of additions.
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
