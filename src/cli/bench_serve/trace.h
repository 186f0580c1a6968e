// Traces of requests: a file with one JSON object per line, in the form of Mooncake's traces
// (https://github.com/kvcache-ai/Mooncake, FAST25-release/traces):
//
//   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}
//
// Timestamps are in milliseconds. A hash id names a block of 512 tokens of the prompt; equal ids are equal
// blocks. Timestamps and hash ids are optional: a file may state only lengths.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

inline constexpr int kTraceBlockTokens{512};

struct TraceRequest {
  double seconds{0};  // arrival, counted from the trace's first request
  int num_prompt_tokens{0}, num_output_tokens{0};
  std::vector<uint64_t> blocks{};  // hash ids; tokens after these blocks belong to this request only
};

struct Trace {
  std::vector<TraceRequest> requests;
  bool has_times{false};
};
// Throws an InputError that names the line; `origin` is the path.
Trace read_trace(std::string_view text, const std::string& origin);

}  // namespace nibble::cli
