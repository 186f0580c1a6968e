// The rule by which drafts are accepted after the rows of a step have sampled. Shared by the host
// (draft_tree.h) and GPU kernels; C++17, for device code.
#pragma once

namespace nibble {

// Calls keep(i) for each accepted draft among the drafts [first, end) of a run, in order. Returns the last
// accepted draft, or `last` if none is accepted. A draft is accepted if its parent is the last known token or
// an accepted draft, and fits(i) is true: the row of the parent sampled it, or the parent has no row because
// nothing else could follow. `last`: the last known token or accepted draft before `first`.
template <typename Parent, typename Fits, typename Keep>
constexpr int for_right_drafts(int last, int first, int end, const Parent& parent, const Fits& fits,
                               const Keep& keep) {
  for (int i = first; i < end; ++i)
    if (parent(i) == last && fits(i)) keep(last = i);
  return last;
}

}  // namespace nibble
