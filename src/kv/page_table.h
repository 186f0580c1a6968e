// The pages of one sequence: of all positions for full layers, only within the window for sliding layers.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kv/page_counts.h"
#include "kv/page_pool.h"
#include "kv/prefix_cache.h"
#include "model/batch.h"

namespace nibble {

class SequencePages {
 public:
  // `window`: number of positions that a sliding layer attends to. The pool must outlive the sequence.
  SequencePages(PagePool& pool, int window);
  SequencePages(SequencePages&&) noexcept;
  SequencePages& operator=(SequencePages&&) = delete;
  ~SequencePages();  // gives all pages back

  // Starts an empty sequence with the pages of a cached prefix: it becomes one more holder of them, and the
  // positions of the prefix count as filled.
  void resume(const Prefix& prefix);
  // Takes pages for the next `num_tokens` positions and gives back sliding pages that the window has passed.
  // Returns false, and takes none, if the pool has too few pages.
  bool reserve(int num_tokens);
  // Returns the largest num_tokens that reserve() would accept now. Like reserve(), gives back sliding pages
  // that the window has passed.
  int make_room() {
    // Positions from length_ on attend to no sliding page before `first_reached`.
    const int first_reached = first_reached_page(length_, window_);
    if (first_reached > first_sliding_page_) drop_sliding_before(first_reached);
    // Each group of kPageTokens positions takes a page of each kind.
    return (static_cast<int>(full_.size()) + pool_->num_free() / 2) * kPageTokens - length_;
  }
  // Counts the next `num_tokens` reserved positions as filled. Called when the step that fills them is
  // planned.
  void advance(int num_tokens);
  // Gives back pages without filled positions, except pages for the next `num_kept` positions.
  void give_back_unfilled(int num_kept = 0);
  // Adds to the cache the pages filled since the last call. Replaces each by a cached page with the same
  // tokens and salt, if one exists. Pages beyond the end of `tokens` wait for a later call. Must be called
  // before make_room() and reserve(), which give back sliding pages that this function would still add.
  void add_to(PrefixCache& cache, std::span<const TokenId> tokens, std::string_view salt = {});

  int length() const { return length_; }  // positions filled once the steps planned so far have run
  PageTableView full() const { return {full_, 0}; }
  PageTableView sliding() const { return {sliding_, first_sliding_page_}; }

 private:
  void drop_sliding_before(int page);

  PagePool* pool_;
  std::vector<PageId> full_, sliding_;
  int window_;
  int first_sliding_page_{0};
  int length_{0};
  size_t num_known_pages_{0};  // number of pages already added to the prefix cache
};

}  // namespace nibble
