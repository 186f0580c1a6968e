// The workload of bench serve: lengths of prompts and answers, what prompts share, arrival times. The seed
// and a request's index determine the request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench_serve/lengths.h"
#include "cli/bench_serve/trace.h"
#include "core/text/json.h"

namespace nibble::cli {

enum class BenchApi { kCompletions, kChat };

// Number of gpt-oss's text tokens, for servers that do not state the size of their vocabulary.
inline constexpr int kTextTokens{199'998};

struct Workload {
  BenchApi api{BenchApi::kCompletions};
  std::string model;
  LengthDistribution prompt_tokens, output_tokens;
  std::vector<TraceRequest> trace{};  // replaces the two lengths; requests are used in order, repeatedly
  int num_prefix_tokens{0};           // length of the prefix that conversations share
  int num_prefixes{1};                // each conversation begins with one of these prefixes
  int num_turns{1};                   // requests per conversation
  int vocab_size{kTextTokens};
  double temperature{1};
  uint64_t seed{0};
  Json extra_body = Json::object();  // overrides members of the body
};

// Numbers of tokens in the prompt and in the answer that a request adds to its conversation.
struct RequestShape {
  int num_prompt_tokens{0}, num_output_tokens{0};
  std::vector<uint64_t> blocks{};  // seeds of the prompt's blocks, each of kTraceBlockTokens tokens
};
RequestShape shape_of(const Workload& workload, uint64_t index);

// Independent streams of random numbers derived from one seed.
enum class Draw : uint64_t { kPromptLength, kOutputLength, kPrefix, kArrival, kPrefixText, kText, kBlock };
uint64_t seed_of(uint64_t seed, Draw draw);

// Returns the arrival times in seconds of `count` requests: a Poisson process of `rate` requests per second.
std::vector<double> poisson_arrivals(double rate, int count, uint64_t seed);

}  // namespace nibble::cli
