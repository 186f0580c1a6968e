// Throughput of a server under load and percentiles of these times, defined as in vllm bench serve (failed
// answers are left out), TTFR and est_ppt as in llama-benchy:
//   TTFR     time to first response: from sending to the first event, with or without a token
//   est_ppt  estimated prompt processing time: TTFR less the latency of a minimal request (bench_serve.cpp)
//   TTFT     time to first token, end to end: from sending to the first event with a token
//   ITL      inter-token latency: from one event with tokens to the next, over all answers
//   TPOT     time per output token: (E2E - TTFT) / (output tokens - 1), one value per answer
//   E2E      end to end: from sending to the complete answer
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nibble::cli {

struct TimedAnswer {  // times of one request, in seconds on a clock that all requests share
  double sent{0}, ended{0};
  std::optional<double> first_response{};  // time at which the first event arrived
  std::vector<double> events{};            // arrival times of events with tokens, even of tokens without text
  std::vector<int64_t> event_tokens{};     // number of tokens of each of these events
  // Token counts reported by the server. Without num_output_tokens, events with tokens are counted instead.
  std::optional<int64_t> num_prompt_tokens, num_output_tokens, num_cached_tokens;
  std::string error;    // kind of the error; empty: the answer is complete
  std::string example;  // message of the error
};

// Times of one answer in seconds.
struct AnswerTimes {
  std::optional<double> ttfr;  // nullopt: there was no event
  std::optional<double> ttft;  // nullopt: no event had a token
  std::optional<double> tpot;  // nullopt: fewer than two tokens
  double e2e{0};
};
AnswerTimes times_of(const TimedAnswer& answer);

struct Percentiles {
  double mean{0}, p50{0}, p90{0}, p95{0}, p99{0}, most{0};
};
// Interpolates linearly, like numpy.percentile. Returns nullopt if there are no samples.
std::optional<Percentiles> percentiles_of(std::vector<double> samples);

struct ErrorCount {
  int count{0};
  std::string example;  // message of the first error
};

struct LoadSummary {
  int num_requests{0}, num_failed{0};
  double seconds{0};  // time from sending the first request to the end of the last answer
  int64_t num_prompt_tokens{0}, num_output_tokens{0};
  std::optional<int64_t> num_cached_tokens;  // prompt tokens from the prefix cache, if reported
  int num_uncounted{0};                      // answers without usage from the server
  int max_open{0};                           // largest number of concurrent requests
  std::optional<Percentiles> ttfr, est_ppt, ttft, itl, tpot, e2e;  // seconds
  // Percentiles over the answers. The speed of an answer is the number of its prompt tokens outside the
  // prefix cache, divided by its est_ppt.
  std::optional<Percentiles> prefill_speed;
  std::map<std::string, ErrorCount> errors;  // [kind of error]

  double requests_per_second() const { return (num_requests - num_failed) / seconds; }
  double prompt_tokens_per_second() const { return static_cast<double>(num_prompt_tokens) / seconds; }
  double output_tokens_per_second() const { return static_cast<double>(num_output_tokens) / seconds; }
  double tokens_per_second() const { return prompt_tokens_per_second() + output_tokens_per_second(); }
  // Returns the output tokens per second of one stream: 1 / median TPOT.
  std::optional<double> interactivity() const;
};
// Returns a summary of `answers`; there must be an answer. `latency`: the result of base_latency(); without
// it, est_ppt is unknown.
LoadSummary summarise(std::span<const TimedAnswer> answers, std::optional<double> latency = {});

}  // namespace nibble::cli
