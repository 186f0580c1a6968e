// Answers with simple times and counts, from which tests compute the statistics by hand.
#pragma once

#include <vector>

#include "cli/bench_serve/latency.h"

namespace nibble::cli {

// Returns two overlapping answers of 3 and 2 tokens, an answer that failed, and an answer without usage.
inline std::vector<TimedAnswer> some_answers() {
  std::vector<TimedAnswer> answers(4);
  answers[0] = {.sent = 10,
                .ended = 11.5,
                .first_response = 10.25,
                .events = {10.5, 10.75, 11.5},
                .event_tokens = {1, 1, 1},
                .num_prompt_tokens = 100,
                .num_output_tokens = 3,
                .num_cached_tokens = 64,
                .error = {},
                .example = {}};
  answers[1] = {.sent = 11,
                .ended = 13,
                .first_response = 12,
                .events = {12, 13},
                .event_tokens = {1, 1},
                .num_prompt_tokens = 50,
                .num_output_tokens = 2,
                .num_cached_tokens = 0,
                .error = {},
                .example = {}};
  answers[2] = {.sent = 10.25,
                .ended = 20,
                .first_response = {},
                .events = {15},
                .event_tokens = {1},
                .num_prompt_tokens = {},
                .num_output_tokens = {},
                .num_cached_tokens = {},
                .error = "HTTP 429",
                .example = "full"};
  answers[3] = {.sent = 13,
                .ended = 14,
                .first_response = 13.125,
                .events = {13.25, 14},
                .event_tokens = {1, 1},
                .num_prompt_tokens = {},
                .num_output_tokens = {},
                .num_cached_tokens = {},
                .error = {},
                .example = {}};
  return answers;
}

}  // namespace nibble::cli
