// The speed of an answer, and the bytes of memory that each token had to read.
#pragma once

#include <string>
#include <vector>

#include "engine/event.h"
#include "model/config.h"
#include "model/ops.h"

namespace nibble::cli {

struct Speed {
  double prefill_tokens_per_second{0};
  double decode_tokens_per_second{0};  // 0 where the answer has fewer than two tokens
  double bytes_per_token{0};  // weights and KV cache for one decoded token at the middle of the answer
};

Speed speed_of(const Config& config, const StorageFormats& formats, const FinishedEvent& finished);
// The share of drafts in which the token at each place was accepted, up to the last place at which one was.
std::vector<double> acceptance_by_place(const speculative::DraftCounts& drafts);
std::string describe(const FinishedEvent& finished, const Speed& speed);  // one line

}  // namespace nibble::cli
