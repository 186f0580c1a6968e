// The pages of one sequence. Full layers keep all positions; sliding layers only the pages that a window still reaches.
#pragma once

#include <span>
#include <vector>

#include "kv/page_pool.h"
#include "kv/prefix_cache.h"
#include "model/batch.h"

namespace nibble {

class SequencePages {
 public:
  // `window`: of the sliding layers. Both pools outlive the sequence.
  SequencePages(PagePool& full, PagePool& sliding, int window);
  SequencePages(SequencePages&&) noexcept;
  SequencePages& operator=(SequencePages&&) = delete;
  ~SequencePages();  // gives everything back

  // Of a sequence that has nothing yet: shares these pages and has their positions filled.
  void resume(const Prefix& prefix);
  // Makes room for `num_tokens` more positions behind the first `length()`; gives back sliding pages that position
  // length() can no longer reach. False, and nothing changed but what was given back, if a pool has too few pages.
  bool reserve(int num_tokens);
  // The most that reserve can make room for now; gives back what reserve would.
  int make_room();
  // The step has run: the positions are filled. At most what was reserved.
  void advance(int num_tokens);
  // Makes the pages that were filled since the last call known, and shares those of others where they are the same. `tokens`:
  // of all length() positions, at least. Called after each advance.
  void add_to(PrefixCache& cache, std::span<const TokenId> tokens);

  int length() const { return length_; }  // positions filled
  PageTableView full() const;
  PageTableView sliding() const;

 private:
  PagePool* full_pool_;
  PagePool* sliding_pool_;
  std::vector<PageId> full_, sliding_;
  int window_;
  int first_sliding_page_{0};
  int length_{0};
  size_t num_known_pages_{0};  // to a prefix cache
};

// The first page that the window of a token at `position` reaches: it sees `window` positions, itself included.
int first_reached_page(int position, int window);
// Pages that hold `num_tokens` positions from a sequence's start.
int num_pages_for(int num_tokens);
// The most sliding pages that a sequence holds when it is fed at most `chunk` tokens at once.
int max_sliding_pages(int window, int chunk);

}  // namespace nibble
