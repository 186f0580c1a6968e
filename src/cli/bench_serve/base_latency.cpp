#include "cli/bench_serve/base_latency.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "cli/bench_serve/http_client.h"
#include "cli/bench_serve/run_load.h"
#include "core/text/json.h"

namespace nibble::cli {
namespace {

namespace asio = boost::asio;

std::string body_of(const Workload& workload) {
  Json body{{"model", workload.model}, {"max_tokens", 1}, {"stream", true}};
  if (workload.api == BenchApi::kChat)
    body["messages"] = {{{"role", "user"}, {"content", "hello"}}};
  else
    body["prompt"] = "hello";
  return body.dump();
}

asio::awaitable<double> time_models(HttpClient& client, const std::string& path) {
  const double sent = client.now();
  co_await client.get(path);
  co_return client.now() - sent;
}

asio::awaitable<double> time_generation(HttpClient& client, const std::string& path,
                                        const std::string& body) {
  const StreamedAnswer answer = co_await client.post(path, body);
  const TimedAnswer& times = answer.times;
  if (!times.error.empty() || !times.first_response) throw HttpFailure{times.error, times.example};
  co_return *times.first_response - times.sent;
}

}  // namespace

std::optional<double> base_latency(const Endpoint& endpoint, const Workload& workload,
                                   const std::string& mode, double timeout_seconds) {
  if (mode == "none") return 0;
  constexpr int kNumRequests{3};
  HttpClient client(endpoint, timeout_seconds);
  std::optional<double> mean;
  const auto measure = [&]() -> asio::awaitable<void> {
    double sum = 0;
    try {
      for (int i = -1; i < kNumRequests; ++i) {  // -1 opens the connection and is not counted
        double seconds = 0;
        if (mode == "api")
          seconds = co_await time_models(client, endpoint.base + "/models");
        else
          seconds =
              co_await time_generation(client, endpoint.base + path_of(workload.api), body_of(workload));
        if (i >= 0) sum += seconds;
      }
      mean = sum / kNumRequests;
    } catch (const HttpFailure&) {  // est_ppt stays unknown
    }
  };
  asio::co_spawn(client.io(), measure(), asio::detached);
  client.io().run();
  return mean;
}

}  // namespace nibble::cli
