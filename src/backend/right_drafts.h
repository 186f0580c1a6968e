// The rule for accepting drafts, for host (draft_tree.h) and GPU. This header is C++17, because CUDA code
// includes it.
#pragma once

namespace nibble {

// The drafts [first, end) of one run, as row numbers. A caller may process a run's drafts in several ranges.
// `last`: row of the last accepted draft of the earlier ranges; if none, row of the last known token.
struct DraftRange {
  int last, first, end;
};

// Calls keep(i) for each accepted draft, in order. Returns the last accepted draft, or drafts.last if none. A
// draft is accepted if its parent is the last known token or an accepted draft, and if fits(i): the parent's
// row sampled this draft's token, or has no output because no other token could follow.
template <typename Parent, typename Fits, typename Keep>
constexpr int for_right_drafts(const DraftRange& drafts, const Parent& parent, const Fits& fits,
                               const Keep& keep) {
  int last = drafts.last;
  for (int i = drafts.first; i < drafts.end; ++i)
    if (parent(i) == last && fits(i)) keep(last = i);
  return last;
}

}  // namespace nibble
