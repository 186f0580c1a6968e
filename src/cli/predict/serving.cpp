#include "cli/predict/serving.h"

#include <algorithm>
#include <cmath>

#include "kv/page_counts.h"
#include "kv/page_pool.h"

namespace nibble::cli {
namespace {

// Returns the expected share of all prefixes that occur in T requests. T is the number of requests whose
// pages fill `room`. A request adds `own_pages` to the cache, and `pages` for its prefix if it is not cached.
double share_that_fits(double room, double num_prefixes, double pages, double own_pages) {
  if (room <= 0) return 0;
  const auto share = [&](double requests) { return 1 - std::exp(-requests / num_prefixes); };
  const auto filled = [&](double requests) {
    return num_prefixes * pages * share(requests) + requests * own_pages;
  };
  // After `most` requests, the probability that a prefix has not occurred is only e^-40.
  double least = 0, most = 40 * num_prefixes;
  if (filled(most) <= room) return 1;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (least + most) / 2;
    (filled(middle) <= room ? least : most) = middle;
  }
  return share(least);
}

}  // namespace

CacheRoom room_beside(const BackendOptions& options, const Config& config, const Request& request,
                      int num_running) {
  // Pages that a sequence adds. `full`: those after the prefix, because sequences share the prefix's pages.
  // `sliding`: those of two windows, one at the end of the sequence and one at the end of its prompt. The
  // pages of the second window stay in use (docs/decisions/0008).
  const int full = num_pages_for(request.num_tokens() - request.prefix_tokens),
            sliding = max_sliding_pages(config.window, 1) + num_pages_for(request.prompt_tokens) -
                      first_reached_page(request.prompt_tokens, config.window);
  const double free = options.num_pages - num_running * (full + sliding),
               unused = std::min(free, static_cast<double>(options.num_pages / PagePool::kPagesPerUnused));
  return {free - unused, unused, config.window, num_running};
}

double found_share(const CacheRoom& room, const Request& request, double num_prefixes) {
  const int pages = request.prefix_tokens / kPageTokens;  // only whole pages are in the prefix cache
  const double own = static_cast<double>(request.num_tokens() - request.prefix_tokens) / kPageTokens;
  const int in_window = pages - first_reached_page(pages * kPageTokens, room.window);
  // Sliding pages of the windows at the ends of prompt and answer. They stay cached until the full pages are
  // dropped.
  const int window_pages = max_sliding_pages(room.window, 1);
  const double own_ends =
      std::min<double>(own, window_pages + std::min(window_pages, request.answer_tokens / kPageTokens));
  const double again = share_that_fits(room.pages, num_prefixes, pages + in_window, own + own_ends);
  // After a hit in the prefix cache, the prefix is found again until its full pages are dropped. After a
  // miss, the sliding pages of the whole prefix count as unused until the next request with this prefix, and
  // may be dropped before full pages. A hit leaves no such pages.
  double found = again;
  for (int round = 0; round < 60; ++round) {
    const double first_again =
        share_that_fits(room.unused_sliding, num_prefixes, 0, own - own_ends + (1 - found) * pages);
    found = first_again > 0 ? first_again / (first_again + 1 - again) : 0;
  }
  const double is_running = 1 - std::exp(-0.5 * room.num_running / num_prefixes);
  return is_running + (1 - is_running) * std::min(found, again);
}

ServingRound round_of(const Request& request, int num_running, double found, int max_batch_tokens,
                      const StepSeconds& step_seconds) {
  const int known = static_cast<int>(found * (request.prefix_tokens / kPageTokens) * kPageTokens),
            num_new = std::max(1, request.prompt_tokens - known), chunk = std::min(num_new, max_batch_tokens),
            together = std::clamp(max_batch_tokens / chunk, 1, num_running);
  ServingRound round;
  for (int offset = 0; offset < num_new; offset += chunk) {
    const int num_tokens = std::min(chunk, num_new - offset);
    round.prompt_seconds += step_seconds({num_tokens, request.prompt_tokens - num_new + offset + num_tokens,
                                          offset + num_tokens == num_new, together});
  }
  round.prompt_seconds *= static_cast<double>(num_running) / together;
  const int middle = request.prompt_tokens + request.answer_tokens / 2;
  round.answer_seconds = (request.answer_tokens - 1) * step_seconds({1, middle, true, num_running});
  return round;
}

PredictedReplicas replicas_of(const BackendOptions& options, const Config& config, const Request& request,
                              const Replicas& replicas, const StepSeconds& step_seconds) {
  const auto& [num_replicas, num_running, by_prefix] = replicas;
  PredictedReplicas found{replicas, {}, {}};
  if (request.prefix_tokens > 0) {
    const double num_prefixes = by_prefix
                                    ? std::max(1.0, static_cast<double>(request.num_prefixes) / num_replicas)
                                    : request.num_prefixes;
    found.found = found_share(room_beside(options, config, request, num_running), request, num_prefixes);
  }
  found.round =
      round_of(request, num_running, found.found.value_or(0), options.max_batch_tokens, step_seconds);
  return found;
}

}  // namespace nibble::cli
