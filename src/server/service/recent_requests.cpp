#include "server/service/recent_requests.h"

#include <algorithm>

namespace nibble::server {

void RecentRequests::add(const Exchange& exchange) {
  const RequestRecord& record = exchange.record();
  if (!record.times.queued) return;
  kept_[num_added_++ % kNumKept] = {.status = exchange.status(),
                                    .num_prompt_tokens = record.num_prompt_tokens,
                                    .num_cached_tokens = record.num_cached_tokens,
                                    .num_output_tokens = record.num_output_tokens,
                                    .times = record.times,
                                    .seconds = record.clock.seconds()};
}

void RecentRequests::for_each(const std::function<void(const Request&)>& visit) const {
  for (size_t age = 1; age <= std::min(num_added_, kNumKept); ++age)
    visit(kept_[(num_added_ - age) % kNumKept]);
}

}  // namespace nibble::server
