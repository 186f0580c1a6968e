// The flags of bench serve.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nibble::cli {

struct BenchServeOptions {
  std::string url;
  std::optional<std::string> model, api_key;
  std::optional<int> num_gpus;
  std::string api{"completions"};
  std::vector<std::string> clients;
  std::vector<double> rates;
  std::optional<std::string> requests, warmup, slo;
  std::optional<double> min_seconds;
  std::optional<std::string> workload;
  std::string prompt_tokens{"512"}, output_tokens{"128"};
  std::optional<int> vocab_size;
  int num_turns{1};
  int num_prefix_tokens{0}, num_prefixes{1};
  double temperature{1};
  std::optional<uint64_t> seed;
  double timeout_seconds{600};
  std::optional<std::string> extra_body;
  std::string latency_mode{"api"};
  bool as_json{false}, with_token_times{false};
};
void add_bench_serve_flags(CLI::App& command, BenchServeOptions& options);

}  // namespace nibble::cli
