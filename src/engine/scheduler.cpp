#include "engine/scheduler.h"

#include <algorithm>

#include "core/check.h"

namespace nibble {

PageCounts max_pages(int num_prompt_tokens, int max_output_tokens, const SchedulerOptions& options) {
  const int full = num_pages_for(num_prompt_tokens + max_output_tokens - 1);
  const int largest_chunk = std::min(num_prompt_tokens, options.max_batch_tokens);
  return {full, std::min(full, max_sliding_pages(options.window, largest_chunk))};
}

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), full_pool_(options.num_full_pages), sliding_pool_(options.num_sliding_pages) {
  NIBBLE_CHECK(options_.max_batch_tokens > 0 && options_.max_sequences > 0, "{} rows, {} sequences",
               options_.max_batch_tokens, options_.max_sequences);
  options_.max_sequences = std::min(options_.max_sequences, options_.max_batch_tokens);
}

void Scheduler::add(RequestId request, int num_prompt_tokens, int max_output_tokens) {
  NIBBLE_CHECK(num_prompt_tokens > 0 && max_output_tokens > 0, "{} tokens, {} more", num_prompt_tokens,
               max_output_tokens);
  const PageCounts promise = max_pages(num_prompt_tokens, max_output_tokens, options_);
  NIBBLE_CHECK(promise.full <= full_pool_.num_pages() && promise.sliding <= sliding_pool_.num_pages(),
               "{} of {} full pages, {} of {} sliding pages", promise.full, full_pool_.num_pages(),
               promise.sliding, sliding_pool_.num_pages());
  waiting_.push_back({request, num_prompt_tokens, promise});
}

void Scheduler::remove(RequestId request) {
  std::erase_if(waiting_, [&](const Waiting& sequence) { return sequence.request == request; });
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](auto& sequence) { return sequence.request == request; });
  if (found == running_.end()) return;
  promised_.full -= found->promise.full;
  promised_.sliding -= found->promise.sliding;
  running_.erase(found);
}

void Scheduler::admit() {
  while (!waiting_.empty() && num_running() < options_.max_sequences) {
    const Waiting& head = waiting_.front();
    if (promised_.full + head.promise.full > full_pool_.num_pages()) return;
    if (promised_.sliding + head.promise.sliding > sliding_pool_.num_pages()) return;
    promised_.full += head.promise.full;
    promised_.sliding += head.promise.sliding;
    running_.push_back({head.request, head.num_prompt_tokens, head.promise,
                        SequencePages(full_pool_, sliding_pool_, options_.window)});
    waiting_.pop_front();
  }
}

Slice Scheduler::plan(Running& sequence, int num_tokens) {
  const bool has_room = sequence.pages.reserve(num_tokens);
  NIBBLE_CHECK(has_room, "request {}: {} tokens after {} do not fit what it was promised",
               static_cast<uint64_t>(sequence.request), num_tokens, sequence.pages.length());
  return {.request = sequence.request,
          .first_position = sequence.pages.length(),
          .num_tokens = num_tokens,
          .gives_token = num_tokens == sequence.num_missing(),
          .full = sequence.pages.full(),
          .sliding = sequence.pages.sliding()};
}

std::vector<Slice> Scheduler::next() {
  admit();
  std::vector<Slice> slices;
  int num_rows_left = options_.max_batch_tokens;
  for (Running& sequence : running_) {
    if (sequence.num_missing() != 1) continue;  // decodes, or has one token of its prompt left: the same work
    slices.push_back(plan(sequence, 1));
    --num_rows_left;
  }
  for (Running& sequence : running_) {
    const int num_tokens = std::min(sequence.num_missing(), num_rows_left);
    if (sequence.num_missing() == 1 || num_tokens == 0) continue;
    slices.push_back(plan(sequence, num_tokens));
    num_rows_left -= num_tokens;
  }
  NIBBLE_CHECK(!slices.empty() || is_idle(), "{} wait and nobody runs", waiting_.size());
  return slices;
}

void Scheduler::advance(const Slice& slice) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](auto& sequence) { return sequence.request == slice.request; });
  NIBBLE_CHECK(found != running_.end() && found->pages.length() == slice.first_position, "request {}",
               static_cast<uint64_t>(slice.request));
  found->pages.advance(slice.num_tokens);
  if (slice.gives_token) ++found->num_known;
}

}  // namespace nibble
