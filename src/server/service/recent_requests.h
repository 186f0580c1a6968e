// The last generating requests with their times, for /status. I/O thread only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>

#include "server/http/exchange.h"

namespace nibble::server {

class RecentRequests {
 public:
  struct Request {
    int status{0};
    int num_prompt_tokens{0}, num_cached_tokens{0}, num_output_tokens{0};
    RequestTimes times;
    double seconds{0};  // time from reading the request to the end of its answer
  };

  // Stores the facts of a request that has ended. Ignores requests that did not reach the engine.
  void add(const Exchange& exchange) {
    const RequestRecord& record = exchange.record();
    if (!record.times.queued) return;
    kept_[num_added_++ % kNumKept] = {.status = exchange.status(),
                                      .num_prompt_tokens = record.num_prompt_tokens,
                                      .num_cached_tokens = record.num_cached_tokens,
                                      .num_output_tokens = record.num_output_tokens,
                                      .times = record.times,
                                      .seconds = record.clock.seconds()};
  }
  void for_each(const std::function<void(const Request&)>& visit) const {  // newest first
    for (size_t age = 1; age <= std::min(num_added_, kNumKept); ++age)
      visit(kept_[(num_added_ - age) % kNumKept]);
  }

 private:
  static constexpr size_t kNumKept{32};
  std::array<Request, kNumKept> kept_;
  size_t num_added_{0};
};

}  // namespace nibble::server
