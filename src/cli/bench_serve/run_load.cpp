#include "cli/bench_serve/run_load.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "cli/bench_serve/http_client.h"

namespace nibble::cli {

namespace asio = boost::asio;

std::string path_of(BenchApi api) { return api == BenchApi::kChat ? "/chat/completions" : "/completions"; }

LoadAnswers run_load(const Endpoint& endpoint, const RequestLoad& load) {
  LoadAnswers run;
  HttpClient client(endpoint, load.timeout_seconds);
  const std::string path = endpoint.base + path_of(load.api);
  const auto converse = [&](int i) -> asio::awaitable<void> {
    BenchConversation conversation = load.conversation_of(i);
    bool is_good = true;
    while (is_good && conversation.has_next()) {
      StreamedAnswer answer = co_await client.post(path, conversation.next_body().dump());
      is_good = answer.times.error.empty();
      run.answers.push_back(std::move(answer.times));
      if (is_good) conversation.add_answer(answer.text);
    }
  };
  const auto send_in_turn = [&]() -> asio::awaitable<void> {
    while (run.num_conversations < load.count || client.now() < load.min_seconds)
      co_await converse(run.num_conversations++);
  };
  const auto send_at = [&](int i) -> asio::awaitable<void> {
    asio::steady_timer timer(client.io());
    timer.expires_after(std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(load.arrivals.times[static_cast<size_t>(i)] - client.now())));
    co_await timer.async_wait(asio::use_awaitable);
    ++run.num_conversations;
    co_await converse(i);
  };
  const auto rethrow = [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
  };
  for (int i = 0; i < load.arrivals.num_clients.value_or(0); ++i)
    asio::co_spawn(client.io(), send_in_turn(), rethrow);
  if (!load.arrivals.num_clients)
    for (int i = 0; i < load.count; ++i) asio::co_spawn(client.io(), send_at(i), rethrow);
  client.io().run();
  return run;
}

}  // namespace nibble::cli
