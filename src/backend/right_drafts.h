// The rule by which drafts are right when the rows of a step have chosen: one for the host (draft_tree.h) and for the kernels of a GPU. C++17,
// for device code.
#pragma once

namespace nibble {

// Calls keep(i) for each right one of the drafts [first, end) of a run, in order, and returns the last of them, or `last` where there is none.
// A draft is right where it stands behind the last token that is known, or behind a right draft, and fits(i) says that the row of that
// token has chosen it, or that there is no such row, because nothing else could follow. `last`: which of these is the last before `first`.
template <typename Parent, typename Fits, typename Keep>
constexpr int for_right_drafts(int last, int first, int end, const Parent& parent, const Fits& fits,
                               const Keep& keep) {
  for (int i = first; i < end; ++i)
    if (parent(i) == last && fits(i)) keep(last = i);
  return last;
}

}  // namespace nibble
