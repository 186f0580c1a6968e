#include "engine/scheduler.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "core/errors/check.h"
#include "kv/page_counts.h"

namespace nibble {
namespace {

// Returns the number of `pages` that no sequence holds: a sequence that shares `pages` uses up this number of
// free pages.
int num_unheld(const PagePool& pool, std::span<const PageId> pages) {
  return static_cast<int>(std::ranges::count_if(pages, [&](PageId page) { return !pool.is_held(page); }));
}

// Reserves `num_tokens` positions. The caller has made sure that free pages suffice.
void reserve(SequencePages& pages, int num_tokens) {
  const bool has_room = pages.reserve(num_tokens);
  NIBBLE_CHECK(has_room);
}

template <typename A, typename B>
bool comes_before(const A& a, const B& b) {
  return std::pair(a.needs.priority, a.arrival) < std::pair(b.needs.priority, b.arrival);
}
template <typename T>
typename std::list<T>::iterator insert_in_order(std::list<T>& sequences, T sequence) {
  auto place = sequences.end();
  while (place != sequences.begin() && comes_before(sequence, *std::prev(place))) --place;
  return sequences.insert(place, std::move(sequence));
}

}  // namespace

int needed_pages(int num_prompt_tokens, int max_output_tokens, int window) {
  return least_pages(num_prompt_tokens + max_output_tokens - 1, window);
}

Scheduler::KvCache::KvCache(const SchedulerOptions& options, int number)
    : pool(options.num_pages, number * options.num_pages) {
  if (options.prefix_cache) prefixes.emplace(pool, options.window);
}

Scheduler::Scheduler(const SchedulerOptions& options) : options_(options) {
  NIBBLE_CHECK(options_.max_batch_tokens > 0 && options_.max_sequences > 0 && options_.num_kv_caches > 0,
               "{} rows, {} sequences, {} KV caches", options_.max_batch_tokens, options_.max_sequences,
               options_.num_kv_caches);
  options_.max_sequences = std::min(options_.max_sequences, options_.max_batch_tokens);
  for (int number = 0; number < options_.num_kv_caches; ++number) caches_.emplace_back(options_, number);
}

void Scheduler::add(RequestId request, std::span<const TokenId> prompt, int max_output_tokens,
                    SequenceNeeds needs) {
  NIBBLE_CHECK(!prompt.empty() && max_output_tokens > 0, "{} tokens, {} more", prompt.size(),
               max_output_tokens);
  const auto num_prompt_tokens = static_cast<int>(prompt.size());
  const int needed = needed_pages(num_prompt_tokens, max_output_tokens, options_.window);
  NIBBLE_CHECK(needed <= options_.num_pages, "{} of {} pages", needed, options_.num_pages);
  insert_in_order(waiting_, Waiting{request,
                                    num_arrivals_++,
                                    {prompt.begin(), prompt.end()},
                                    num_prompt_tokens,
                                    num_prompt_tokens + max_output_tokens,
                                    false,
                                    std::move(needs)});
}

void Scheduler::remove(RequestId request) {
  std::erase_if(waiting_, [&](const Waiting& sequence) { return sequence.request == request; });
  const auto found = running_by_id_.find(request);
  if (found == running_by_id_.end()) return;
  const auto sequence = found->second;
  try {
    add_to_cache(*sequence);
    mark_end(*sequence, sequence->pages.length());
  } catch (const std::bad_alloc&) {  // out of memory: later prompts can share fewer pages
  }
  erase(sequence);
}

void Scheduler::discard(RequestId request, int num_filled) {
  const auto found = running_by_id_.find(request);
  if (found == running_by_id_.end()) return;
  mark_end(*found->second, num_filled);  // next() has added these pages to the cache
  erase(found->second);
}

void Scheduler::erase(std::list<Running>::iterator sequence) {
  --sequence->cache->num_running;
  running_by_id_.erase(sequence->request);
  running_.erase(sequence);
}

std::vector<RequestId> Scheduler::remove_running() {
  std::vector<RequestId> removed;
  for (const Running& sequence : running_) removed.push_back(sequence.request);
  running_by_id_.clear();
  running_.clear();
  for (KvCache& cache : caches_) cache.num_running = 0;
  forget_prefixes();
  return removed;
}

void Scheduler::requeue_running() {
  while (!running_.empty()) preempt(std::prev(running_.end()));
  forget_prefixes();
}

void Scheduler::forget_prefixes() {
  for (KvCache& cache : caches_)
    if (cache.prefixes) cache.prefixes->clear();
}

std::optional<RequestId> Scheduler::youngest() const {
  if (!running_.empty()) return running_.back().request;
  if (!waiting_.empty()) return waiting_.front().request;
  return std::nullopt;
}

PageCounts Scheduler::num_held_pages(int kv_cache) const {
  const PagePool& pool = caches_.at(static_cast<size_t>(kv_cache)).pool;
  return {pool.num_held(LayerKind::kFull), pool.num_held(LayerKind::kSliding)};
}

void Scheduler::add_to_cache(Running& sequence) {
  if (auto& prefixes = sequence.cache->prefixes)
    sequence.pages.add_to(*prefixes, sequence.tokens, sequence.needs.cache_salt);
}

// Returns the pages that a sequence needs to run all `num_tokens` known tokens, with `num_filled` positions
// filled.
PageCounts Scheduler::pages_for(size_t num_tokens, int num_filled) const {
  const auto num_known = static_cast<int>(num_tokens);
  const int full = num_pages_for(num_known);
  const int chunk = std::clamp(num_known - num_filled, 1, options_.max_batch_tokens);
  return {full, std::min(full - first_reached_page(num_filled, options_.window),
                         max_sliding_pages(options_.window, chunk))};
}

bool Scheduler::has_room(const KvCache& cache, const Waiting& sequence, const Prefix& known) const {
  // A sequence that is alone in a cache can use all of it. A prompt that does not fit as one chunk is split.
  if (cache.num_running == 0) return true;
  int num_left = cache.pool.num_free();
  for (const Running& other : running_) {
    if (other.cache != &cache) continue;
    const PageCounts needed = pages_for(other.num_tokens(), other.pages.length());
    num_left -= 2 + std::max(0, needed.full - static_cast<int>(other.pages.full().pages.size())) +
                std::max(0, needed.sliding - static_cast<int>(other.pages.sliding().pages.size()));
  }
  const PageCounts needed = pages_for(sequence.tokens.size(), known.num_tokens());
  return num_left >= needed.total() - static_cast<int>(known.full.size() + known.sliding.size()) +
                         num_unheld(cache.pool, known.full) + num_unheld(cache.pool, known.sliding);
}

// Limits the preference for a KV cache that holds part of a prompt: a cache with more running sequences than
// the returned number is not preferred. Sequences are spread almost evenly, because each step waits for the
// rank with the most rows. One eighth above the minimum is a compromise that has not been measured.
int Scheduler::most_running() const {
  const auto fewer = [](const KvCache& a, const KvCache& b) { return a.num_running < b.num_running; };
  const int fewest = std::ranges::min_element(caches_, fewer)->num_running;
  return fewest + std::max(1, fewest / 8);
}

// Whether another running prompt will soon fill pages that this sequence can share. Answers do not count:
// they fill a page every kPageTokens steps, too slowly to wait for. Prompts that ignore the prefix cache
// (whole_prompt) do not count: their pages may be cached already. The other prompt must have the same salt,
// run in a KV cache with at most most_running() sequences, and get its rows soon: it is the first running
// prompt in order, or it has at most this sequence's priority value and at most twice as many tokens left as
// this sequence has in total.
bool Scheduler::is_being_filled(const Waiting& sequence) const {
  if (!may_share(sequence)) return false;
  // The last token is always run, so it does not count as shared.
  const auto tokens = std::span(sequence.tokens).first(sequence.tokens.size() - 1);
  const int most = most_running();
  bool is_first = true;
  for (const Running& other : running_) {
    if (num_missing(other) <= 1) continue;
    const bool is_soon = std::exchange(is_first, false) ||
                         (other.needs.priority <= sequence.needs.priority &&
                          num_missing(other) <= 2 * static_cast<int>(sequence.tokens.size()));
    if (!is_soon || other.needs.whole_prompt || other.cache->num_running > most ||
        other.needs.cache_salt != sequence.needs.cache_salt)
      continue;
    const auto [end, _] =
        std::mismatch(tokens.begin(), tokens.end(), other.tokens.begin(), other.tokens.end());
    if ((end - tokens.begin()) / kPageTokens > other.pages.length() / kPageTokens) return true;
  }
  return false;
}

std::optional<Scheduler::Room> Scheduler::find_room(const Waiting& sequence) {
  const auto order = [](const Prefix& prefix, const KvCache& in) {
    return std::pair(-prefix.num_tokens(), in.num_running);
  };
  const int most = most_running();
  std::optional<Room> chosen;
  for (KvCache& cache : caches_) {
    Prefix here = may_share(sequence) && cache.num_running <= most
                      ? cache.prefixes->find(sequence.tokens, sequence.needs.cache_salt)
                      : Prefix{};
    if (!has_room(cache, sequence, here)) continue;
    if (chosen && order(chosen->known, *chosen->cache) <= order(here, cache)) continue;
    chosen = {&cache, std::move(here)};
  }
  return chosen;
}

void Scheduler::admit() {
  std::vector<Waiting*> overtaken;
  for (auto next = waiting_.begin(); next != waiting_.end() && num_running() < options_.max_sequences;) {
    if (is_being_filled(*next)) {
      ++next;
      continue;
    }
    const std::optional<Room> room = find_room(*next);
    if (!room) {
      // Stop here: a search for room for every sequence of a long queue in every step would take too long.
      if (next->num_overtaking == kMaxOvertaking || overtaken.size() == kMaxOvertaking) return;
      overtaken.push_back(&*next++);
      continue;
    }
    start(*next, *room);
    next = waiting_.erase(next);
    bool is_last = false;
    for (Waiting* other : overtaken) is_last |= ++other->num_overtaking == kMaxOvertaking;
    if (is_last) return;
  }
}

void Scheduler::start(Waiting& sequence, const Room& room) {
  SequencePages pages(room.cache->pool, options_.window);
  pages.resume(room.known);
  const auto admitted = insert_in_order(running_, Running{sequence.request,
                                                          sequence.arrival,
                                                          room.cache,
                                                          {},
                                                          sequence.num_prompt_tokens,
                                                          sequence.max_tokens,
                                                          std::move(pages),
                                                          sequence.needs});
  try {
    running_by_id_.emplace(sequence.request, admitted);
  } catch (const std::bad_alloc&) {
    running_.erase(admitted);
    throw;
  }
  admitted->tokens = std::move(sequence.tokens);  // nothing can fail from here on
  ++room.cache->num_running;
  if (!sequence.has_run) {
    counts_.num_prompt_tokens += admitted->tokens.size();
    counts_.num_cached_tokens += static_cast<uint64_t>(room.known.num_tokens());
  }
}

// Decides how many rows each sequence gets. A sequence with one token left to run gets its row first.
void Scheduler::share_rows() {
  int num_left = options_.max_batch_tokens;
  std::vector<Running*> prompts;
  for (Running& sequence : running_) {
    sequence.num_rows = num_missing(sequence) == 1;
    num_left -= sequence.num_rows;
    if (num_missing(sequence) > 1) prompts.push_back(&sequence);
  }
  const bool some_decode = num_left < options_.max_batch_tokens;
  const bool is_shared = running_.size() + waiting_.size() > 1;
  if (is_shared && options_.max_shared_rows > 0) num_left = std::min(num_left, options_.max_shared_rows);
  if (some_decode) num_left = std::min(num_left, max_rows_with_decoding_);
  const auto give = [&](Running& prompt, int most) {
    const int num_rows = std::min(most, num_missing(prompt) - prompt.num_rows);
    prompt.num_rows += num_rows;
    num_left -= num_rows;
    return num_rows;
  };
  std::vector<Running*> shortest = prompts;
  std::ranges::stable_sort(shortest, [&](const Running* a, const Running* b) {
    return std::pair(a->needs.priority, num_missing(*a)) < std::pair(b->needs.priority, num_missing(*b));
  });
  int num_for_short = num_left / 2;
  for (Running* prompt : shortest) num_for_short -= give(*prompt, num_for_short);
  for (Running* prompt : prompts) give(*prompt, num_left);
}

// Protects cached sliding pages from early eviction: the pages that a later prompt needs to continue after
// the first `num_tokens` tokens of this sequence, and the next page, because a prompt may share a few more
// tokens.
void Scheduler::mark_end(const Running& sequence, int num_tokens) {
  const int last = num_tokens / kPageTokens;
  const int first = first_reached_page(last * kPageTokens, options_.window);
  const int end = std::min(last + 1, sequence.pages.length() / kPageTokens);
  if (sequence.cache->prefixes && first < end)
    sequence.cache->prefixes->touch_sliding(
        sequence.pages.full().pages.subspan(static_cast<size_t>(first), static_cast<size_t>(end - first)));
}

// Frees pages that the window has passed. Keeps the sliding pages at the end of the prompt, if the cache has
// room: the next turn of a chat continues there, without the reasoning that is being generated now.
int Scheduler::make_room(Running& sequence) {
  const int num_sliding_before = sequence.pages.sliding().first_page;
  const int num_tokens = sequence.pages.make_room();
  if (sequence.pages.sliding().first_page > num_sliding_before)
    mark_end(sequence, sequence.num_prompt_tokens);
  return num_tokens;
}

std::list<Scheduler::Running>::iterator Scheduler::last_in(const KvCache& cache) {
  auto last = std::prev(running_.end());
  while (last->cache != &cache) --last;
  return last;
}

void Scheduler::preempt(std::list<Running>::iterator sequence) {
  const auto put_back = insert_in_order(waiting_, Waiting{sequence->request,
                                                          sequence->arrival,
                                                          {},
                                                          sequence->num_prompt_tokens,
                                                          sequence->max_tokens,
                                                          true,
                                                          sequence->needs});
  put_back->tokens = std::move(sequence->tokens);  // nothing can fail from here on
  mark_end(*sequence, sequence->pages.length());
  erase(sequence);
  ++counts_.num_preemptions;
}

// Returns the number of positions that a slice may need. With launches_before_drafts, a slice with drafts may
// also need the position after its last draft. The answer's last token is never run and needs no position.
int Scheduler::num_places(const Slice& slice, const Running& sequence) const {
  const bool has_one_behind = options_.launches_before_drafts && slice.num_drafts > 0;
  return std::min(slice.num_unsure + slice.num_tokens + has_one_behind,
                  sequence.max_tokens - 1 - slice.first_position);
}

int Scheduler::most_drafts(const Running& sequence, const Slice& slice) const {
  const int end = slice.first_position + slice.num_unsure + slice.num_tokens;
  const int num_pages = static_cast<int>(sequence.pages.full().pages.size());
  const KvCache& cache = *sequence.cache;
  const int num_spare = cache.pool.num_free() / 2 - cache.num_running;
  const int num_with_pages =
      (num_pages + std::max(0, num_spare)) * kPageTokens - end - options_.launches_before_drafts;
  return std::max(0, std::min(num_with_pages, sequence.max_tokens - 1 - end));
}

void Scheduler::add_drafts(const PlanDrafts& plan_drafts, std::vector<Slice>& slices, int num_rows_left) {
  struct Drafted {
    Running* sequence;
    Slice* slice;
  };
  std::vector<Drafted> drafted;
  std::vector<DraftRoom::Quota> quotas;
  auto sequence = running_.begin();
  for (Slice& slice : slices) {  // slices have the order of the sequences
    while (sequence->request != slice.request) ++sequence;
    if (!slice.gives_token || (slice.follows && !options_.launches_before_drafts)) continue;
    const int most = std::min(num_rows_left, most_drafts(*sequence, slice));
    if (most == 0) continue;
    drafted.push_back({&*sequence, &slice});
    quotas.push_back({.request = slice.request, .follows = slice.follows, .most = most});
  }
  if (quotas.empty()) return;
  plan_drafts({.num_rows = options_.max_batch_tokens - num_rows_left,
               .num_sequences = static_cast<int>(slices.size()),
               .num_rows_left = num_rows_left,
               .quotas = quotas});
  for (size_t i = 0; i < quotas.size(); ++i) {
    const auto [running, slice] = drafted[i];
    // The drafts of earlier sequences may have taken the pages.
    const int most = std::min({quotas[i].most, num_rows_left, most_drafts(*running, *slice)});
    slice->num_drafts = std::clamp(quotas[i].num_drafts, 0, most);
    slice->num_tokens += slice->num_drafts;
    num_rows_left -= slice->num_drafts;
    reserve(running->pages, num_places(*slice, *running));
    running->num_drafts = slice->num_drafts;
  }
}

std::vector<Slice> Scheduler::next(const PlanDrafts& plan_drafts) {
  for (Running& sequence : running_) {
    NIBBLE_CHECK(sequence.num_awaited <= 1 && sequence.num_drafts_before == 0,
                 "request {} awaits {} tokens, after {} drafts", static_cast<uint64_t>(sequence.request),
                 sequence.num_awaited, sequence.num_drafts_before);
    // Not earlier: this may change page tables that the previous step used until it was launched.
    add_to_cache(sequence);
  }
  admit();
  share_rows();
  std::vector<Slice> slices;
  slices.reserve(running_.size());
  int num_rows_left = options_.max_batch_tokens;
  // Visit in order: a sequence that is preempted here comes after `sequence` and has no slice yet.
  for (auto sequence = running_.begin(); sequence != running_.end(); ++sequence) {
    int num_tokens = sequence->num_rows;
    if (num_tokens == 0) continue;
    // Unverified drafts of the previous step. Their positions are already reserved: see num_places().
    const int num_unsure = std::exchange(sequence->num_drafts, 0);
    sequence->num_drafts_before = num_unsure;
    int room = make_room(*sequence);
    NIBBLE_CHECK(num_unsure == 0 || room > num_unsure, "request {} has room for {} of {} drafts",
                 static_cast<uint64_t>(sequence->request), room, num_unsure);
    for (auto last = last_in(*sequence->cache); room == 0 && last != sequence;
         last = last_in(*sequence->cache)) {
      preempt(last);
      room = make_room(*sequence);
    }
    num_tokens = std::min(num_tokens, room);
    NIBBLE_CHECK(num_tokens > 0 || sequence->cache->num_running > 1,
                 "request {} runs alone and has no pages after {} tokens",
                 static_cast<uint64_t>(sequence->request), sequence->pages.length());
    // This sequence is the last in order and has no room. It keeps its pages until another one needs them.
    if (num_tokens == 0) continue;
    reserve(sequence->pages, num_unsure + num_tokens);
    num_rows_left -= num_tokens;
    const int first_position = sequence->pages.length();
    const bool gives_token = num_tokens == num_missing(*sequence);
    slices.push_back({.request = sequence->request,
                      .sequence = sequence->needs.sequence,
                      .first_position = first_position,
                      .num_tokens = num_tokens,
                      .gives_token = gives_token,
                      .follows = first_position == std::ssize(sequence->tokens),
                      .num_unsure = num_unsure});
    sequence->num_awaited += gives_token;
  }
  if (plan_drafts) add_drafts(plan_drafts, slices, num_rows_left);
  auto planned = running_.begin();
  for (Slice& slice : slices) {
    while (planned->request != slice.request) ++planned;
    slice.full = planned->pages.full();
    slice.sliding = planned->pages.sliding();
    planned->pages.advance(slice.num_tokens - slice.num_drafts);
  }
  const auto awaits = [](const Running& sequence) { return sequence.num_awaited > 0; };
  NIBBLE_CHECK(!slices.empty() || is_idle() || std::ranges::any_of(running_, awaits),
               "{} sequences wait and none can run", waiting_.size());
  return slices;
}

bool Scheduler::waits_for_tokens() const {
  return std::ranges::any_of(running_, [&](const Running& sequence) {
    return sequence.needs_awaited(options_.launches_before_drafts) && !sequence.is_complete();
  });
}

bool Scheduler::goes_on() const {
  return std::ranges::any_of(running_, [](const Running& sequence) { return !sequence.is_complete(); });
}

void Scheduler::push(RequestId request, TokenId token) { add_token(request, token, /*is_awaited=*/true); }
void Scheduler::append(RequestId request, TokenId token) { add_token(request, token, /*is_awaited=*/false); }

void Scheduler::accept(RequestId request, int num_drafts) {
  const auto found = running_by_id_.find(request);
  if (found == running_by_id_.end()) return;
  Running& sequence = *found->second;
  int& in_slice = sequence.num_drafts_before > 0 ? sequence.num_drafts_before : sequence.num_drafts;
  NIBBLE_CHECK(num_drafts <= in_slice && sequence.pages.length() + num_drafts <= sequence.num_tokens(),
               "request {}: {} of {} drafts after {} of {} tokens", static_cast<uint64_t>(request),
               num_drafts, in_slice, sequence.pages.length(), sequence.num_tokens());
  in_slice = 0;
  sequence.pages.advance(num_drafts);
  sequence.pages.give_back_unfilled(sequence.num_drafts > 0 ? sequence.num_drafts + 1 : 0);
}

void Scheduler::add_token(RequestId request, TokenId token, bool is_awaited) {
  if (const auto found = running_by_id_.find(request); found != running_by_id_.end()) {
    Running& sequence = *found->second;
    // The token of a step planned ahead may still be awaited.
    const int num_ahead = options_.launches_before_drafts;
    NIBBLE_CHECK(is_awaited ? sequence.num_awaited > 0 : sequence.num_awaited <= num_ahead,
                 "request {} awaits {} tokens", static_cast<uint64_t>(request), sequence.num_awaited);
    sequence.tokens.push_back(token);
    sequence.num_awaited -= is_awaited;
    return;
  }
  const auto preempted = std::ranges::find(waiting_, request, &Waiting::request);
  if (preempted != waiting_.end()) preempted->tokens.push_back(token);
}

}  // namespace nibble
