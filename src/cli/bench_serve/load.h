// One load on a server, and the numbers of requests that it sends.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::cli {

// With `num_clients` (closed loop), each client waits for the answer to its request before it sends the next
// request. With `rate` (open loop), requests arrive at this rate, even while others run. With neither, a
// trace states when each request arrives.
struct BenchLoad {
  std::optional<int> num_clients{};
  std::optional<double> rate{};  // requests per second
};
std::string name(const BenchLoad& load);  // "16 clients", "2.5 /s", "trace"

inline constexpr int kMostRequests{1 << 24};

// A number of requests: "300", or "10x" for ten requests per client of the load.
struct RequestCount {
  int number{0};
  bool is_per_client{false};
};
// Throws InputError; `origin` is the flag.
RequestCount read_request_count(std::string_view text, std::string_view origin, int least);
// Throws InputError for a count per client if the load has no clients.
int count_for(const BenchLoad& load, const RequestCount& count, std::string_view origin);

}  // namespace nibble::cli
