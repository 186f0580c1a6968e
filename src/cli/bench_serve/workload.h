// The workload of bench serve: lengths of prompts and answers, shared prefixes, arrival times. The seed and a
// request's index determine the request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace nibble::cli {

struct LengthDistribution {
  enum class Kind { kFixed, kUniform, kExponential };
  Kind kind{Kind::kFixed};
  int least{1}, most{1};  // range of the result
  double mean{1};         // kExponential: the mean before clamping to the range

  int draw(double unit) const;  // unit: uniform in [0, 1)
};
// Parses "512" (fixed), "128-1024" (uniform), or "exp:512" (exponential with that mean, clamped at 8 times
// the mean, which one request in 3,000 would exceed). Throws InputError; `origin` is the flag.
LengthDistribution read_length(const std::string& text, std::string_view origin);

enum class BenchApi { kCompletions, kChat };

struct Workload {
  BenchApi api{BenchApi::kCompletions};
  std::string model;
  LengthDistribution prompt_tokens, output_tokens;
  int num_prefix_tokens{0};  // shared tokens before each prompt, besides prompt_tokens
  int num_prefixes{1};
  double temperature{1};
  uint64_t seed{0};
  nlohmann::ordered_json extra_body = nlohmann::ordered_json::object();  // added to each body, wins
};

// Body of request `index`: streamed, with usage and ignore_eos (where supported, exactly max_tokens are
// generated). A completion's prompt is token ids 0 to 999, which every vocabulary has, so its length is exact.
// A chat's prompt is words of one token each in gpt-oss's vocabulary, plus the chat template.
nlohmann::ordered_json request_body(const Workload& workload, uint64_t index);

// The arrival times, in seconds, of `count` requests: a Poisson process of `rate` requests per second.
std::vector<double> poisson_arrivals(double rate, int count, uint64_t seed);

}  // namespace nibble::cli
