#include "cli/bench/run_requests.h"

#include <chrono>
#include <map>
#include <variant>

#include "core/errors/error.h"
#include "core/system/clock.h"

namespace nibble::cli {

RequestsRun run_requests(Engine& engine, std::span<const GenerationRequest> requests, int num_clients) {
  RequestsRun run{.answers = std::vector<std::vector<TokenId>>(requests.size())};
  const Stopwatch clock;
  std::map<RequestId, size_t> running;
  size_t next = 0;
  while (next < requests.size() || !running.empty()) {
    while (next < requests.size() && std::ssize(running) < num_clients) {
      const RequestId id = engine.submit(requests[next]);
      running[id] = next++;
    }
    const std::optional<Event> event = engine.wait_event(std::chrono::seconds(1));
    if (!event) continue;
    if (const auto* token = std::get_if<TokenEvent>(&*event)) {
      run.answers[running.at(token->request)].push_back(token->token.token);
    } else if (const auto* finished = std::get_if<FinishedEvent>(&*event)) {
      running.erase(finished->request);
      run.num_tokens += static_cast<size_t>(finished->num_output_tokens);
      run.num_steps += static_cast<size_t>(finished->num_steps);
      run.decode_seconds += finished->decode_seconds;
      run.first_token_seconds.push_back(finished->queue_seconds + finished->prefill_seconds);
    } else {
      throw InputError("{}", std::get<FailedEvent>(*event).message);
    }
  }
  run.seconds = clock.seconds();
  run.drafts = engine.state().drafts;
  return run;
}

}  // namespace nibble::cli
