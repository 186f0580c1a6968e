// Who runs in the next step. It knows numbers only (lengths, positions, pages), no tokens, no text and no time, so that
// what it decides follows from what it was told.
//
//   Admission is first come, first served: nobody overtakes the one at the head of the queue. A sequence is admitted
//   when the pages of its worst case (all of its prompt and the most it may answer) are not promised to another. So a
//   running sequence never starves and none has to be put aside; the price is that an answer that stops early has
//   kept pages promised that it never took.
//   A step gives every sequence that decodes its one row; prompts, oldest first, share the rows that are left.
#pragma once

#include <deque>
#include <list>
#include <vector>

#include "engine/request.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "model/batch.h"

namespace nibble {

struct SchedulerOptions {
  int max_batch_tokens{512};  // rows of one step
  int max_sequences{16};      // running at once; never more than there are rows, so that each has one
  int num_full_pages{0}, num_sliding_pages{0};
  int window{128};  // of the sliding layers
};

struct PageCounts {
  int full{0}, sliding{0};
};
// The most pages that a sequence holds at any time. The last token of an answer is never fed back: it needs no room.
PageCounts max_pages(int num_prompt_tokens, int max_output_tokens, const SchedulerOptions& options);

// One sequence's part of a step.
struct Slice {
  RequestId request{};
  int first_position{0};
  int num_tokens{0};
  bool gives_token{false};          // it ends with the last token that is known: the next one is wanted
  PageTableView full{}, sliding{};  // until the scheduler is told or asked anything else
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  // Puts a sequence at the end of the queue. Its worst case fits the pools: see max_pages.
  void add(RequestId request, int num_prompt_tokens, int max_output_tokens);
  // Whatever state it is in, it is gone and its pages are free. One that is not here is left alone.
  void remove(RequestId request);

  // Admits whom there is room for, then plans a step and reserves its pages. Empty only if nobody is here.
  std::vector<Slice> next();
  // The slice has been run: its positions are filled, and the token that it gave is known.
  void advance(const Slice& slice);

  bool is_idle() const { return waiting_.empty() && running_.empty(); }
  int num_waiting() const { return static_cast<int>(waiting_.size()); }
  int num_running() const { return static_cast<int>(running_.size()); }
  const PagePool& full_pool() const { return full_pool_; }
  const PagePool& sliding_pool() const { return sliding_pool_; }

 private:
  struct Waiting {
    RequestId request;
    int num_prompt_tokens;
    PageCounts promise;
  };
  struct Running {
    RequestId request;
    int num_known;  // tokens of the prompt and of the answer so far
    PageCounts promise;
    SequencePages pages;
    int num_missing() const { return num_known - pages.length(); }  // known, but not yet run
  };

  void admit();
  Slice plan(Running& sequence, int num_tokens);

  SchedulerOptions options_;
  PagePool full_pool_, sliding_pool_;
  PageCounts promised_;
  std::deque<Waiting> waiting_;
  std::list<Running> running_;  // in the order of admission
};

}  // namespace nibble
