// Who runs in the next step. It knows tokens only as the names of pages (kv/prefix_cache.h), no text and no time, so that
// what it decides follows from what it was told.
//
//   Admission is first come, first served: nobody overtakes the one at the head of the queue. A sequence is admitted when
//   there are pages for what is known of it, its prompt, beside what those who run are known to need, and one more of each
//   kind for each of these to go on with. What it may answer is not counted: most answers are shorter than they may be.
//   So pages can run out. Then the youngest that runs gives back its pages and waits at the head of the queue; later it
//   runs again from its first token, answer included, or from what the prefix cache still has of it. The oldest is never
//   put aside, and alone it has room for its worst case: it goes on in every step, and so everyone comes to their end.
//   A step gives every sequence that decodes its one row; prompts, oldest first, share the rows that are left.
//   A prompt waits while another one is filling pages that both have in common, and then shares them.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "engine/request.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "kv/prefix_cache.h"
#include "model/batch.h"

namespace nibble {

struct SchedulerOptions {
  int max_batch_tokens{512};  // rows of one step
  int max_sequences{16};      // running at once; never more than there are rows, so that each has one
  int num_full_pages{0}, num_sliding_pages{0};
  int window{128};          // of the sliding layers
  bool prefix_cache{true};  // false: every prompt is run from its first token, nothing is shared
};

struct PageCounts {
  int full{0}, sliding{0};
};
// The most pages that a sequence needs at any time. The last token of an answer is never fed back: it needs no room.
PageCounts max_pages(int num_prompt_tokens, int max_output_tokens, const SchedulerOptions& options);

// One sequence's part of a step.
struct Slice {
  RequestId request{};
  int first_position{0};  // in its first slice: the tokens that need not be run
  int num_tokens{0};
  bool gives_token{false};          // it ends with the last token that is known: the next one is wanted
  PageTableView full{}, sliding{};  // until the scheduler is told or asked anything else
};

// Since the scheduler was made. Tokens of prompts count when their sequence is admitted for the first time.
struct SchedulerCounts {
  uint64_t num_prompt_tokens{0};
  uint64_t num_cached_tokens{0};  // of these: in pages that were known
  uint64_t num_preemptions{0};
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  // Puts a sequence at the end of the queue. Its worst case fits the pools: see max_pages.
  void add(RequestId request, std::span<const TokenId> prompt, int max_output_tokens);
  // Whatever state it is in, it is gone and its pages are free. One that is not here is left alone.
  void remove(RequestId request);

  // Admits whom there is room for, then plans a step and reserves its pages; puts aside whom there is no room for. Empty
  // only if nobody is here.
  std::vector<Slice> next();
  // The slice has been run: its positions are filled. `token` is the one that it gave, if it was to give one.
  void advance(const Slice& slice, std::optional<TokenId> token);

  bool is_idle() const { return waiting_.empty() && running_.empty(); }
  int num_waiting() const { return static_cast<int>(waiting_.size()); }
  int num_running() const { return static_cast<int>(running_.size()); }
  const SchedulerCounts& counts() const { return counts_; }
  const PagePool& full_pool() const { return full_pool_; }
  const PagePool& sliding_pool() const { return sliding_pool_; }

 private:
  struct Waiting {
    RequestId request;
    std::vector<TokenId> tokens;  // of the prompt and of the answer so far
    int num_prompt_tokens;
    bool has_run;  // and was put aside
  };
  struct Running {
    RequestId request;
    std::vector<TokenId> tokens;
    int num_prompt_tokens;
    SequencePages pages;
    int num_missing() const { return static_cast<int>(tokens.size()) - pages.length(); }  // not yet run
  };

  void admit();
  bool is_being_filled(std::span<const TokenId> tokens) const;
  bool has_room(const Waiting& sequence, const Prefix& known) const;
  PageCounts pages_for(size_t num_tokens, int num_filled) const;
  int make_room(Running& sequence);
  void preempt_youngest();

  SchedulerOptions options_;
  PagePool full_pool_, sliding_pool_;
  std::optional<PrefixCache> cache_;
  SchedulerCounts counts_;
  // Both in the order of arrival, and who runs came before who waits.
  std::deque<Waiting> waiting_;
  std::list<Running> running_;
};

}  // namespace nibble
