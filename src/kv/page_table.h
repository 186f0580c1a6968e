// The pages of one sequence. Full layers keep all positions, sliding layers only the pages that the window still
// reaches.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kv/page_pool.h"
#include "kv/prefix_cache.h"
#include "model/batch.h"

namespace nibble {

class SequencePages {
 public:
  // `window` is that of the sliding layers. Both pools must outlive the sequence.
  SequencePages(PagePool& full, PagePool& sliding, int window);
  SequencePages(SequencePages&&) noexcept;
  SequencePages& operator=(SequencePages&&) = delete;
  ~SequencePages();  // gives everything back

  // Starts an empty sequence behind a cached prefix: shares its pages and counts their positions as filled.
  void resume(const Prefix& prefix);
  // Takes pages for `num_tokens` more positions after the first `length()`; gives back sliding pages that position
  // length() can no longer reach. Returns false, and takes none, if a pool has too few pages.
  bool reserve(int num_tokens);
  // The largest number of tokens that reserve() would accept now; gives back the same pages as reserve().
  int make_room();
  // Counts positions as filled by a step that was planned; at most those that were reserved.
  void advance(int num_tokens);
  // Gives back pages that no filled position is in, nor one of the next `num_kept`.
  void give_back_unfilled(int num_kept = 0);
  // Adds the pages that were filled since the last call to the cache, and replaces a page by an identical cached one
  // with the same salt where there is one. `tokens` are those that are known; a page with others waits. To be called before each
  // make_room().
  void add_to(PrefixCache& cache, std::span<const TokenId> tokens, std::string_view salt = {});

  int length() const { return length_; }  // positions that are filled when the steps planned so far have run
  PageTableView full() const;
  PageTableView sliding() const;

 private:
  PagePool* full_pool_;
  PagePool* sliding_pool_;
  std::vector<PageId> full_, sliding_;
  int window_;
  int first_sliding_page_{0};
  int length_{0};
  size_t num_known_pages_{0};  // already added to the prefix cache
};

// The first page that a token at `position` sees: its window has `window` positions, including its own.
int first_reached_page(int position, int window);
// The number of pages for the first `num_tokens` positions of a sequence.
int num_pages_for(int num_tokens);
// The largest number of sliding pages that a sequence holds if it is fed at most `chunk` tokens at once.
int max_sliding_pages(int window, int chunk);

}  // namespace nibble
