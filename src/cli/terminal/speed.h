#pragma once

#include <string>
#include <vector>

#include "engine/event.h"
#include "model/config.h"
#include "model/ops.h"

namespace nibble::cli {

struct Speed {
  double prefill_tokens_per_second{0};
  double decode_tokens_per_second{0};  // 0 if the answer has fewer than two tokens
  double bytes_per_token{0};           // weights and KV cache read for a token in the middle of the answer
};

Speed speed_of(const Config& config, const StorageFormats& formats, const FinishedEvent& finished);
// Element n is the share of proposals whose n-th draft was accepted. Ends with the last share above 0.
std::vector<double> acceptance_by_place(const speculative::DraftCounts& drafts);
std::string describe(const FinishedEvent& finished, const Speed& speed);  // one line
// Returns one line for an answer that ended before the model ended it; otherwise an empty text.
std::string describe_cut(const FinishedEvent& finished);

}  // namespace nibble::cli
