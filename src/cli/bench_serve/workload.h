// The workload of bench serve: lengths of prompts and answers, prefixes that prompts share, times of arrival. A seed determines all of
// it, request by request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace nibble::cli {

// Tokens of a prompt or an answer.
struct LengthDistribution {
  enum class Kind { kFixed, kUniform, kExponential };
  Kind kind{Kind::kFixed};
  int least{1}, most{1};  // what can be drawn
  double mean{1};         // of an exponential one, before it is cut

  int draw(double unit) const;  // unit: uniform in [0, 1)
};
// "512"; "128-1024", each equally often; "exp:512", that mean and cut at 8 times it, as one request in 3,000 would be longer.
// Throws InputError that says so; `origin` is the flag that said it.
LengthDistribution read_length(const std::string& text, std::string_view origin);

enum class BenchApi { kCompletions, kChat };

struct Workload {
  BenchApi api{BenchApi::kCompletions};
  std::string model;
  LengthDistribution prompt_tokens, output_tokens;
  int num_prefix_tokens{0};  // more of the prompt, the same for all requests of one prefix
  int num_prefixes{1};
  double temperature{1};
  uint64_t seed{0};
  nlohmann::ordered_json extra_body =
      nlohmann::ordered_json::object();  // members that each request has beside or in place of its own
};

// The body of request `index`: streamed, with usage, and with ignore_eos, which makes answers as long as asked for where the
// server knows it. A completion's prompt is token ids, from 0 to 999: they are in every vocabulary and their number is
// exact. A chat's is words of one token each in the vocabulary of gpt-oss; the template comes on top.
nlohmann::ordered_json request_body(const Workload& workload, uint64_t index);

// The times at which `count` requests arrive, in seconds: a Poisson process, `rate` a second.
std::vector<double> poisson_arrivals(double rate, int count, uint64_t seed);

}  // namespace nibble::cli
