// How fast an answer came, beside what had to pass through memory for it.
#pragma once

#include <string>

#include "engine/event.h"
#include "model/config.h"
#include "model/ops.h"

namespace nibble::cli {

struct Speed {
  double prefill_tokens_per_second{0};
  double decode_tokens_per_second{0};  // 0: fewer than two tokens, nothing to measure
  double bytes_per_token{0};           // read for one decoded token, at the middle of the answer
};

Speed measure(const Config& config, const StorageFormats& formats, const FinishedEvent& finished);
std::string describe(const FinishedEvent& finished, const Speed& speed);  // one line

}  // namespace nibble::cli
