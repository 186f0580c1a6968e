// The scheduler decides which sequences run in the next step. It uses tokens only as keys of the prefix cache, and neither
// text nor time, so its decisions are deterministic.
//
//   Sequences have an order: by priority (lower first), then by arrival. It decides who is admitted, who gets rows and who
//   keeps its pages. No sequence is stopped because another comes before it: a sequence that runs loses its place only
//   where pages run out.
//   A waiting sequence is admitted when there are pages for its prompt, besides the pages that running sequences need for
//   their known tokens and one more of each kind for each of them. Its possible answer is not counted, because most answers
//   are shorter than they may be. One without room does not hold up those after it at once: kMaxOvertaking of them may be
//   admitted before it, then all wait until there is room for it.
//   Pages can run out. Then the running sequence that is last in order is preempted: it gives back its pages and waits.
//   Later it is computed again from its first token, answer included, or from what the prefix cache still has of it. The
//   first in order is never preempted, and alone it has room for its worst case. So it advances in every step, and every
//   sequence ends at some time, unless sequences of a lower priority number never stop coming.
//   Where ranks have sequences of their own there are several KV caches, and a sequence has all its pages in one of them: in that
//   with the fewest running sequences, or in one with a few more that knows more of its prompt. Only sequences in the same cache compete
//   for pages.
//   A step gives one row to each sequence that decodes. Half of the remaining rows go to the prompts that have the fewest
//   tokens left, so that a short prompt does not wait for long ones; what is left goes to the prompts in order, so that a
//   long one gets at least half, however many short ones come. A prompt that is alone gets all rows;
//   beside others there may be fewer, so that steps are short where a row takes long (max_shared_rows).
//   A prompt waits while another prompt fills pages that both have in common, and then shares them, if the other one gets
//   its rows soon. Those after it do not wait with it.
//
// A step can be planned while the one before it runs: steps run one after the other, so a page is used from the moment when the step
// that writes it is planned, and may be written by another sequence as soon as it is given back. A sequence whose next token is not
// known yet has its row all the same; the row of one that turns out to have ended was in vain.
//
// A slice can end in drafts: tokens that somebody believes to come next. Their positions have pages while the step runs, and are filled
// only once accept() says that the tokens came. Those of the others stay unfilled: the next step writes them again, no window has moved
// over them, and the prefix cache does not see them. Drafts take what nobody needs: rows that are left when all others have theirs, and
// pages beyond one more of each kind for every sequence that runs. So they never put a sequence off.
//
// Where a backend makes the drafts itself, a step can be planned ahead of what is accepted too. The positions of such a slice are then known
// but for the drafts of the step before (Slice::num_unsure): it has pages for the last that they can be, no window moves further than the
// first, and accept() says where they were. So that the row behind the last draft has a place whatever is accepted, drafts take one more.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/generation_request.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "kv/prefix_cache.h"
#include "model/batch.h"

namespace nibble {

struct SchedulerOptions {
  int max_batch_tokens{512};  // rows of one step
  int max_shared_rows{0};     // for prompts while more than one sequence runs or waits; 0: no further limit
  int max_sequences{16};      // running at once; cut to max_batch_tokens, so that each can have a row
  int num_kv_caches{1};
  // Of each KV cache: cache c has the pages from c num_full_pages on, and from c num_sliding_pages on.
  int num_full_pages{0}, num_sliding_pages{0};
  int window{128};          // positions that a sliding layer attends to
  bool prefix_cache{true};  // false: every prompt is run from its first token, nothing is shared
  // The backend makes the drafts of a step in the step before: so a sequence with drafts that nobody knows to be right has its place in a
  // step that is planned ahead, and drafts there.
  bool runs_behind_drafts{false};
};

struct PageCounts {
  int full{0}, sliding{0};
};
// The most pages that a sequence needs at any time, all in one KV cache. The last token of an answer is never fed back: it needs no room.
PageCounts max_pages(int num_prompt_tokens, int max_output_tokens, const SchedulerOptions& options);

// The part of a step that belongs to one sequence.
struct Slice {
  RequestId request{};
  int first_position{0};    // in the sequence's first slice: the number of tokens found in the prefix cache
  int num_tokens{0};        // drafts included
  int num_drafts{0};        // of them, behind those that are known
  bool gives_token{false};  // it includes the last token, so the step samples the next one
  bool follows{false};      // its first token is the one that the step before samples, and not known yet
  int num_unsure{0};  // drafts of the step before, of which each that is right puts it one position further
  PageTableView full{}, sliding{};  // valid until the next call of a non-const function of the scheduler
};

// A step that is planned has this room left for drafts.
struct DraftRoom {
  struct Place {
    RequestId request{};
    bool follows{false};  // Slice::follows: the drafts are those that the step before makes
    int most{0};          // as many drafts have pages, and a place in the answer
    int num_drafts{0};    // to be set
  };
  int num_rows{0}, num_sequences{0};  // of the step without drafts
  int num_rows_left{0};
  std::span<Place> places{};  // of slices that give a token
};
using PlanDrafts = std::function<void(const DraftRoom& room)>;

struct SequenceNeeds {
  // Its next step is not planned before the tokens of the step before are known, because they decide how it is sampled
  // (waits_for_tokens()).
  bool known_tokens{false};
  bool whole_prompt{false};  // run from its first token, whatever the prefix cache has of it
  int priority{0};           // lower numbers come first
  std::string cache_salt{};  // it shares pages only with sequences that have the same salt
};

// Totals since the scheduler was made. Tokens of a prompt count when its sequence is admitted for the first time.
struct SchedulerCounts {
  uint64_t num_prompt_tokens{0};
  uint64_t num_cached_tokens{0};  // those of them that were in the prefix cache
  uint64_t num_preemptions{0};
};

class Scheduler {
 public:
  // Sequences that may be admitted before one that comes first, and has no room, while it waits.
  static constexpr int kMaxOvertaking{16};

  explicit Scheduler(const SchedulerOptions& options);

  // Puts a sequence into the queue. Its worst case must fit a KV cache: see max_pages.
  void add(RequestId request, std::span<const TokenId> prompt, int max_output_tokens,
           SequenceNeeds needs = {});
  // Removes a sequence in any state and frees its pages. Does nothing if there is none of this id.
  void remove(RequestId request);
  // Removes all running sequences, and returns them, when a step could not be run: nobody knows what the pages hold. The prefix cache
  // forgets everything.
  std::vector<RequestId> remove_running();
  // Puts all running sequences back at the head of the queue, when a step could not be planned or run and they are to be run again from
  // their first token. The prefix cache forgets everything. Where this fails for want of memory, it can be called again.
  void requeue_running();
  // The youngest running sequence, or where none runs the oldest that waits; nothing if there is no sequence.
  std::optional<RequestId> youngest() const;

  // Admits sequences that there is room for, then plans a step and reserves its pages, preempting if there are too few. One step may be
  // planned before the tokens of the step before it are known. Empty if there is no sequence, or none without those tokens.
  // `plan_drafts` is asked for drafts when all else is planned. A sequence with drafts has no row in a step that is planned ahead, unless
  // runs_behind_drafts is set and the answer can't be complete with them.
  std::vector<Slice> next(const PlanDrafts& plan_drafts = {});
  // Says whether a step that is planned now, before the tokens of the last one are known, has no place for a sequence because it needs
  // them.
  bool waits_for_tokens() const;
  // Reports the token that a step sampled for a sequence; ignored if the sequence was removed meanwhile.
  void push(RequestId request, TokenId token);
  // Adds a token behind those that are known, which no step samples or a step behind a draft; ignored likewise. No token of that step or
  // one before it may be awaited.
  void append(RequestId request, TokenId token);
  // Says how many of the drafts of the oldest slice with drafts are the tokens that followed, which push() and append() have told. Ignored if
  // the sequence was removed or preempted meanwhile.
  void accept(RequestId request, int num_drafts);

  bool is_idle() const { return waiting_.empty() && running_.empty(); }
  int num_waiting() const { return static_cast<int>(waiting_.size()); }
  int num_running() const { return static_cast<int>(running_.size()); }
  bool is_running(RequestId request) const;
  const SchedulerCounts& counts() const { return counts_; }
  PageCounts num_free_pages(int kv_cache) const;  // without a holder

 private:
  struct KvCache {
    KvCache(const SchedulerOptions& options, int number);
    PagePool full, sliding;
    std::optional<PrefixCache> prefixes;
    int num_running{0};  // sequences
  };
  struct Waiting {
    RequestId request;
    uint64_t arrival;
    std::vector<TokenId> tokens;        // prompt, then the answer so far
    int num_prompt_tokens, max_tokens;  // max_tokens: of prompt and answer
    bool has_run;                       // it was preempted
    SequenceNeeds needs;
    int num_overtaking{0};  // sequences admitted before it while there was no room for it
  };
  struct Running {
    RequestId request;
    uint64_t arrival;
    KvCache* cache;
    std::vector<TokenId> tokens;  // those that are known
    int num_prompt_tokens, max_tokens;
    SequencePages pages;
    SequenceNeeds needs{};
    int num_rows{0};     // of the step that is being planned
    int num_awaited{0};  // more tokens, which steps that were planned sample
    // In the step that was planned last, and in the one before it where that one follows it: until accept().
    int num_drafts{0}, num_drafts_before{0};
    int num_tokens() const {
      return static_cast<int>(tokens.size()) + num_awaited;
    }  // or more, by right drafts
    bool is_complete() const { return num_tokens() >= max_tokens; }
    // Behind drafts that nobody knows to be right there may be no further position: then it waits for that, too.
    bool needs_awaited(bool runs_behind_drafts) const {
      return num_awaited > 0 &&
             (needs.known_tokens ||
              (num_drafts > 0 && (!runs_behind_drafts || num_tokens() + num_drafts >= max_tokens)));
    }
  };

  // Tokens that the next step can run and no planned one does. The last one of a complete answer is never run.
  int num_missing(const Running& sequence) const {
    const bool is_held = sequence.is_complete() || sequence.needs_awaited(options_.runs_behind_drafts);
    return is_held ? 0 : sequence.num_tokens() - sequence.pages.length();
  }
  void add_token(RequestId request, TokenId token, bool is_awaited);
  struct Room {
    KvCache* cache;
    Prefix known;
  };
  void admit();
  void start(Waiting& sequence, const Room& room);
  void add_to_cache(Running& sequence);
  void forget_prefixes();
  int most_running() const;
  bool may_share(const Waiting& sequence) const {
    return options_.prefix_cache && !sequence.needs.whole_prompt;
  }
  bool is_being_filled(const Waiting& sequence) const;
  std::optional<Room> find_room(const Waiting& sequence);
  bool has_room(const KvCache& cache, const Waiting& sequence, const Prefix& known) const;
  PageCounts pages_for(size_t num_tokens, int num_filled) const;
  void share_rows();
  int make_room(Running& sequence);
  int num_places(const Slice& slice, const Running& sequence) const;
  int most_drafts(const Running& sequence, const Slice& slice) const;
  void add_drafts(const PlanDrafts& plan_drafts, std::vector<Slice>& slices, int num_rows_left);
  std::list<Running>::iterator last_in(const KvCache& cache);
  void preempt(std::list<Running>::iterator sequence);

  SchedulerOptions options_;
  std::deque<KvCache> caches_;
  SchedulerCounts counts_;
  uint64_t num_arrivals_{0};
  // Both are in order. Every sequence that runs in a KV cache comes before every waiting one that was preempted there while it ran.
  std::list<Waiting> waiting_;
  std::list<Running> running_;
};

}  // namespace nibble
