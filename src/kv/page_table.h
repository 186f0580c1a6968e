// The pages of one sequence. Full layers keep all positions; sliding layers keep only the pages that the
// window still reaches.
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
  // `window`: positions that a sliding layer attends to. The pool must outlive the sequence.
  SequencePages(PagePool& pool, int window);
  SequencePages(SequencePages&&) noexcept;
  SequencePages& operator=(SequencePages&&) = delete;
  ~SequencePages();  // gives all pages back

  // Starts an empty sequence after a cached prefix: shares its pages and counts their positions as filled.
  void resume(const Prefix& prefix);
  // Takes pages for the next `num_tokens` positions after length(), and gives back sliding pages that
  // position length() can no longer reach. Returns false, and takes none, if the pool has too few pages.
  bool reserve(int num_tokens);
  // Returns the largest num_tokens that reserve() would accept now. Gives back the same pages as reserve().
  int make_room();
  // Counts `num_tokens` positions as filled by a planned step. They must be reserved.
  void advance(int num_tokens);
  // Gives back the pages that contain neither a filled position nor one of the next `num_kept` positions.
  void give_back_unfilled(int num_kept = 0);
  // Adds the pages filled since the last call to the cache. Replaces a page by an identical cached one of the
  // same salt, if there is one. `tokens`: the known tokens; a page with unknown tokens is added later. Must
  // be called before each make_room().
  void add_to(PrefixCache& cache, std::span<const TokenId> tokens, std::string_view salt = {});

  int length() const { return length_; }  // positions filled once the steps planned so far have run
  PageTableView full() const;
  PageTableView sliding() const;

 private:
  PagePool* pool_;
  std::vector<PageId> full_, sliding_;
  int window_;
  int first_sliding_page_{0};
  int length_{0};
  size_t num_known_pages_{0};  // already added to the prefix cache
};

}  // namespace nibble
