// Decides which sequences run in the next step. Uses tokens only as keys of the prefix cache, and neither
// text nor time: its decisions are deterministic.
//
// Order: by priority (lower first), then by arrival. This order decides which sequences are admitted, get
// rows and keep their pages. A running sequence loses its place only if pages run out, not because a new
// sequence comes before it in this order.
// Admission: a waiting sequence is admitted if a KV cache has pages for its prompt, after the pages that
// running sequences need for their known tokens and one spare page of each kind for each of them. Future
// tokens of answers are not counted, because most answers are shorter than their limit. A KV cache without
// running sequences admits any sequence. Up to kMaxOvertaking later sequences may overtake one without room;
// then all later sequences wait until it has room.
// Preemption: if pages run out, the running sequence that is last in order gives back its pages and waits.
// Later its prompt and its answer so far are recomputed, except pages in the prefix cache. The first sequence
// in order is never preempted, and alone it has room for its worst case. So the first one advances in every
// step, and every sequence ends eventually, unless sequences with lower priority numbers keep arriving.
// Several KV caches: if ranks have sequences of their own, each rank has a KV cache, and a sequence has all
// its pages in one cache: the one with the fewest running sequences, or one with a few more sequences that
// holds more of its prompt. Only sequences in the same cache compete for pages.
// Rows: each decoding sequence gets one row of a step. Half of the other rows go to the prompts with the
// fewest tokens left, so that short prompts do not wait for long ones. The rest goes to the prompts in order,
// so a long prompt advances however many short ones arrive. If several sequences run or wait, max_shared_rows
// limits the rows of prompts, to keep steps short where rows are slow. limit_prompt_rows() limits them in
// steps in which a sequence decodes.
// Shared prefixes: a prompt waits while a running prompt will soon fill pages that both have in common, and
// then shares these pages. Later sequences in the queue do not wait with it.
//
// Planning ahead: a step can be planned while the previous one runs. Steps run one after another, so a page
// is in use from the planning of the step that writes it, and can be reused as soon as it is given back. A
// sequence whose next token is unknown still gets its row, which is wasted if the sequence has ended.
// Drafts: a slice can end in drafts. Their positions have pages while the step runs, but count as filled only
// after accept(). Positions of rejected drafts stay unfilled: the next step overwrites them, no window has
// moved past them, and the prefix cache does not see them. Drafts never delay a sequence: they use only rows
// left after all other sequences have theirs, and pages that are left after one more page of each kind has
// been set aside for every running sequence.
// If the backend makes the drafts itself, a step can be planned before it is known which drafts of the
// previous step are accepted. The positions of a slice are then uncertain by those drafts
// (Slice::num_unsure): it has pages up to the last possible position, no window moves past the first possible
// one, and accept() settles them. A slice with drafts reserves one more position, so that the next step has
// a position for its first row even if all drafts are accepted.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/generation_request.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "kv/prefix_cache.h"
#include "model/batch.h"

namespace nibble {

class Sequence;  // the scheduler only passes its address to the step's slices

struct SchedulerOptions {
  int max_batch_tokens{512};  // rows of one step
  int max_shared_rows{0};     // limit of a step's prompt rows if several sequences run or wait; 0: no limit
  int max_sequences{16};      // limit of running sequences, at most max_batch_tokens so that each has a row
  int num_kv_caches{1};
  int num_pages{0};         // pages of each KV cache, full and sliding; ids of cache c start at c * num_pages
  int window{128};          // positions that a sliding layer attends to
  bool prefix_cache{true};  // false: every prompt is run from its first token and nothing is shared
  // The backend drafts within each step for the next one. A step planned ahead can then include a sequence
  // with unverified drafts and give it new ones, unless the unverified ones may complete the answer.
  bool launches_before_drafts{false};
};

struct PageCounts {
  int full{0}, sliding{0};
  int total() const { return full + sliding; }
};
// Returns the number of pages that let a sequence run to its end. An answer's last token is never fed back
// and needs no page.
int needed_pages(int num_prompt_tokens, int max_output_tokens, int window);

struct Slice {  // the part of a step that belongs to one sequence
  RequestId request{};
  Sequence* sequence{nullptr};  // copied from SequenceNeeds
  int first_position{0};        // in a sequence's first slice: number of tokens found in the prefix cache
  int num_tokens{0};            // including drafts
  int num_drafts{0};            // number of drafts: the slice's last tokens
  bool gives_token{false};      // includes the last token, so the step samples the next one
  bool follows{false};          // the previous step samples the slice's first token
  // Number of unverified drafts in the previous step. If n of them are accepted, the slice begins n positions
  // later.
  int num_unsure{0};
  PageTableView full{}, sliding{};  // valid until the next call of a non-const function of the scheduler
};

struct DraftRoom {  // room for drafts in a step that is being planned
  struct Quota {
    RequestId request{};
    bool follows{false};  // Slice::follows is set, so the previous step makes the drafts
    int most{0};          // limit: drafts that have rows and pages and fit into the answer
    int num_drafts{0};    // out: set by PlanDrafts
  };
  int num_rows{0}, num_sequences{0};  // size of the step without drafts
  int num_rows_left{0};
  std::span<Quota> quotas{};  // one for each slice that gives a token and has room
};
using PlanDrafts = std::function<void(const DraftRoom& room)>;

struct SequenceNeeds {
  // Whether the next token can be sampled only when the previous step's tokens are known. If so, the sequence
  // gets no row in a step that is planned before they are known (Scheduler::waits_for_tokens()).
  bool known_tokens{false};
  bool whole_prompt{false};     // run the prompt from its first token, even if part of it is cached
  int priority{0};              // lower numbers come first
  std::string cache_salt{};     // the sequence shares pages only with sequences of the same salt
  Sequence* sequence{nullptr};  // copied to Slice::sequence
};

// Totals since the start. A prompt's tokens are counted when its sequence is first admitted.
struct SchedulerCounts {
  uint64_t num_prompt_tokens{0};
  uint64_t num_cached_tokens{0};  // tokens of num_prompt_tokens that were in the prefix cache
  uint64_t num_preemptions{0};
};

class Scheduler {
 public:
  // Maximum number of sequences that are admitted before an earlier one that has no room.
  static constexpr int kMaxOvertaking{16};

  explicit Scheduler(const SchedulerOptions& options);

  // Queues a sequence. Its worst case (needed_pages()) must fit into one KV cache.
  void add(RequestId request, std::span<const TokenId> prompt, int max_output_tokens,
           SequenceNeeds needs = {});
  // Removes a sequence in any state and frees its pages. Ignores unknown ids.
  void remove(RequestId request);
  // Like remove(), for a running sequence whose last planned step was given up: later prompts share only the
  // pages of its first `num_filled` positions.
  void discard(RequestId request, int num_filled);
  // After a failed step (page contents unknown): removes and returns running sequences, clears prefix caches.
  std::vector<RequestId> remove_running();
  // Moves all running sequences back to the queue, in order, after a step could not be planned or run. Each
  // restarts from its first token. Clears the prefix cache. If memory runs out, the call can be repeated.
  void requeue_running();
  // Returns the last running sequence in order; if none runs, the first waiting one.
  std::optional<RequestId> youngest() const;

  // Admits sequences that have room, then plans a step and reserves its pages, preempting if pages run out.
  // One step may be planned before the tokens of the previous one are known. Returns nothing if no sequence
  // can run. Calls `plan_drafts` once all else is planned. A sequence with drafts has no row in a step that
  // is planned ahead, unless launches_before_drafts is set and the answer can't be complete with the drafts.
  std::vector<Slice> next(const PlanDrafts& plan_drafts = {});
  // Whether an incomplete sequence would get no row now, because it needs the tokens of the step under way.
  bool waits_for_tokens() const;
  // Whether, by its token limit, a running sequence may have a row in a later step. A token that is still
  // being computed may end the sequence earlier.
  bool goes_on() const;
  // Reports the token that a step sampled for a sequence. Ignored if the sequence has been removed.
  void push(RequestId request, TokenId token);
  // Adds a token that no planned step announced: a forced token, or the token of a row after a draft. Report
  // earlier tokens first. Ignored if the sequence has been removed.
  void append(RequestId request, TokenId token);
  // Reports the number of accepted drafts of the oldest slice with unsettled drafts. Call it after push() and
  // append() of the slice's tokens. Ignored if the sequence has been removed or preempted.
  void accept(RequestId request, int num_drafts);

  // Limits the prompt rows of later steps in which a sequence decodes. `most`: at least 1.
  void limit_prompt_rows(int most) { max_rows_with_decoding_ = most; }

  bool is_idle() const { return waiting_.empty() && running_.empty(); }
  int num_waiting() const { return static_cast<int>(waiting_.size()); }
  int num_running() const { return static_cast<int>(running_.size()); }
  // Calls `function` for each waiting sequence in order, with its place, from 1.
  template <typename Function>
  void for_each_waiting(Function function) const {
    int place = 0;
    for (const Waiting& sequence : waiting_) function(sequence.request, ++place);
  }
  bool is_running(RequestId request) const { return running_by_id_.contains(request); }
  const SchedulerCounts& counts() const { return counts_; }
  PageCounts num_held_pages(int kv_cache) const;  // pages that running sequences hold

 private:
  struct KvCache {
    KvCache(const SchedulerOptions& options, int number);
    PagePool pool;
    std::optional<PrefixCache> prefixes;
    int num_running{0};  // running sequences in this cache
  };
  struct Waiting {
    RequestId request;
    uint64_t arrival;
    std::vector<TokenId> tokens;        // prompt, then the answer so far
    int num_prompt_tokens, max_tokens;  // max_tokens: of prompt and answer together
    bool has_run;                       // true if the sequence has run before and was preempted
    SequenceNeeds needs;
    int num_overtaking{0};  // sequences admitted before it while it had no room
  };
  struct Running {
    RequestId request;
    uint64_t arrival;
    KvCache* cache;
    std::vector<TokenId> tokens;  // known tokens only
    int num_prompt_tokens, max_tokens;
    SequencePages pages;
    SequenceNeeds needs{};
    int num_rows{0};     // number of rows in the step that is being planned
    int num_awaited{0};  // tokens that planned steps sample and that are not known yet
    // Drafts not settled by accept() yet: of the step planned last, and of the step before it.
    int num_drafts{0}, num_drafts_before{0};
    // Returns the number of known and awaited tokens. The final number can be larger, because drafts may be
    // accepted.
    int num_tokens() const { return static_cast<int>(tokens.size()) + num_awaited; }
    bool is_complete() const { return num_tokens() >= max_tokens; }
    // Whether the sequence can't run further before the awaited tokens are known. With
    // launches_before_drafts, it must wait for unverified drafts only if they may complete the answer.
    bool needs_awaited(bool launches_before_drafts) const {
      return num_awaited > 0 &&
             (needs.known_tokens ||
              (num_drafts > 0 && (!launches_before_drafts || num_tokens() + num_drafts >= max_tokens)));
    }
  };

  // Returns the number of tokens that the next step can run and that no planned step includes. An answer's
  // last token is never run.
  int num_missing(const Running& sequence) const {
    const bool is_held = sequence.is_complete() || sequence.needs_awaited(options_.launches_before_drafts);
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
  void mark_end(const Running& sequence, int num_tokens);
  int make_room(Running& sequence);
  int num_places(const Slice& slice, const Running& sequence) const;
  int most_drafts(const Running& sequence, const Slice& slice) const;
  void add_drafts(const PlanDrafts& plan_drafts, std::vector<Slice>& slices, int num_rows_left);
  std::list<Running>::iterator last_in(const KvCache& cache);
  void preempt(std::list<Running>::iterator sequence);
  void erase(std::list<Running>::iterator sequence);

  SchedulerOptions options_;
  std::deque<KvCache> caches_;
  int max_rows_with_decoding_{std::numeric_limits<int>::max()};  // set by limit_prompt_rows()
  SchedulerCounts counts_;
  uint64_t num_arrivals_{0};
  // Both lists are sorted by priority, then by arrival. All sequences running in a KV cache come before all
  // waiting sequences that were preempted there.
  std::list<Waiting> waiting_;
  std::list<Running> running_;
  std::unordered_map<RequestId, std::list<Running>::iterator> running_by_id_;
};

}  // namespace nibble
