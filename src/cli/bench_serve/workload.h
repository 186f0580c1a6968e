// The workload of bench serve: lengths of prompts and answers, shared prefixes, arrival times. A seed and the
// index of a request determine the request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace nibble::cli {

// Distribution of the number of tokens of a prompt or an answer.
struct LengthDistribution {
  enum class Kind { kFixed, kUniform, kExponential };
  Kind kind{Kind::kFixed};
  int least{1}, most{1};  // range of the result
  double mean{1};         // kExponential: the mean before clamping to the range

  int draw(double unit) const;  // unit: uniform in [0, 1)
};
// Parses "512"; "128-1024", each length equally likely; or "exp:512", exponential with that mean,
// clamped at 8 times the mean (one request in 3,000 would be longer). Throws an InputError that lists
// these; `origin` is the flag.
LengthDistribution read_length(const std::string& text, std::string_view origin);

enum class BenchApi { kCompletions, kChat };

struct Workload {
  BenchApi api{BenchApi::kCompletions};
  std::string model;
  LengthDistribution prompt_tokens, output_tokens;
  int num_prefix_tokens{0};  // shared tokens before each prompt, in addition to prompt_tokens
  int num_prefixes{1};
  double temperature{1};
  uint64_t seed{0};
  // Members that are added to the body of each request, or replace its own.
  nlohmann::ordered_json extra_body = nlohmann::ordered_json::object();
};

// Returns the body of request `index`: streamed, with usage, and with ignore_eos, by which servers that
// support it generate exactly max_tokens. For completions the prompt is token ids from 0 to 999, which every
// vocabulary has, so its length is exact. For a chat it is words that are one token each in the vocabulary of
// gpt-oss, plus the chat template.
nlohmann::ordered_json request_body(const Workload& workload, uint64_t index);

// Returns the arrival times of `count` requests, in seconds: a Poisson process with
// `rate` requests per second.
std::vector<double> poisson_arrivals(double rate, int count, uint64_t seed);

}  // namespace nibble::cli
