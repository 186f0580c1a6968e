#include "cli/bench_serve/ask_server.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "cli/bench_serve/http_client.h"
#include "cli/bench_serve/run_load.h"
#include "core/text/json.h"

namespace nibble::cli {

Coherence ask_server(const Endpoint& endpoint, const std::string& model, double timeout_seconds) {
  const Json body{{"model", model},
                  {"messages", {{{"role", "user"}, {"content", kCoherenceQuestion}}}},
                  {"reasoning_effort", "low"},
                  {"temperature", 0},
                  {"max_tokens", kCoherenceTokens},
                  {"stream", true}};
  Coherence coherence;
  HttpClient client(endpoint, timeout_seconds);
  const auto ask_once = [&]() -> boost::asio::awaitable<void> {
    const StreamedAnswer answer = co_await client.post(endpoint.base + path_of(BenchApi::kChat), body.dump());
    if (answer.times.error.empty())
      coherence.answer = answer.text.content;
    else
      coherence.reason = "the request failed: " + answer.times.error;
  };
  boost::asio::co_spawn(client.io(), ask_once(), boost::asio::detached);
  client.io().run();
  return coherence;
}

}  // namespace nibble::cli
