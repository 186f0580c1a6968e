#include "cli/bench_serve/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "core/errors/error.h"

namespace nibble::cli {

std::string name(const BenchLoad& load) {
  if (load.num_clients)
    return fmt::format("{} client{}", *load.num_clients, *load.num_clients == 1 ? "" : "s");
  return load.rate ? fmt::format("{:.4g} /s", *load.rate) : "trace";
}

RequestCount read_request_count(std::string_view text, std::string_view origin, int least) {
  const bool is_per_client = text.ends_with('x');
  const std::string_view digits = text.substr(0, text.size() - is_per_client);
  int number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || stop != digits.data() + digits.size() || number < least ||
      number > kMostRequests)
    throw InputError("{} '{}': expected a number from {} to {}, or one such as 10x: 10 times the clients",
                     origin, text, least, kMostRequests);
  return {number, is_per_client};
}

int count_for(const BenchLoad& load, const RequestCount& count, std::string_view origin) {
  if (!count.is_per_client) return count.number;
  if (!load.num_clients)
    throw InputError("{} {}x: a load without --clients needs a number of requests, such as {} {}", origin,
                     count.number, origin, 64);
  return static_cast<int>(std::min<int64_t>(int64_t{count.number} * *load.num_clients, kMostRequests));
}

}  // namespace nibble::cli
