// Summarises a load on a server: throughput, and percentiles of these times:
//
//   TTFT   time to first token: sent, until the first event with text
//   ITL    inter-token latency: from one event with text to the next, of all answers together
//   TPOT   time per output token: (E2E - TTFT) / (output tokens - 1), one figure for each answer
//   E2E    end to end: sent, until the answer is complete
// as vllm bench serve defines them. Answers that failed are in none of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nibble::cli {

// One request's. Times are seconds on one clock.
struct TimedAnswer {
  double sent{0}, ended{0};
  std::vector<double> texts;  // when events with text arrived
  // As the server counted; without that, output tokens are the events with text, and prompt tokens unknown.
  std::optional<int64_t> num_prompt_tokens, num_output_tokens, num_cached_tokens;
  std::string error;    // its kind; empty: the answer is whole
  std::string example;  // what was said of it
};

struct Percentiles {
  double mean{0}, p50{0}, p90{0}, p95{0}, p99{0}, most{0};
};
// Linear between ranks, as numpy's percentile. Nothing of no samples.
std::optional<Percentiles> percentiles_of(std::vector<double> samples);

struct ErrorCount {
  int count{0};
  std::string example;  // the first one's
};

struct LoadSummary {
  int num_requests{0}, num_failed{0};
  double seconds{0};  // from the first request's sending to the last answer's end
  int64_t num_prompt_tokens{0}, num_output_tokens{0};
  std::optional<int64_t> num_cached_tokens;         // of the prompts', where the server tells it
  int num_uncounted{0};                             // answers whose usage the server did not tell
  int max_open{0};                                  // most requests at once
  std::optional<Percentiles> ttft, itl, tpot, e2e;  // seconds
  std::map<std::string, ErrorCount> errors;         // by kind

  double requests_per_second() const { return (num_requests - num_failed) / seconds; }
  double prompt_tokens_per_second() const { return static_cast<double>(num_prompt_tokens) / seconds; }
  double output_tokens_per_second() const { return static_cast<double>(num_output_tokens) / seconds; }
};
LoadSummary summarise(std::span<const TimedAnswer> answers);  // at least one

}  // namespace nibble::cli
