#include "cli/terminal/answer.h"

#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include "core/errors/error.h"

namespace nibble::cli {
namespace {

// kPollInterval: how often ctrl-C is polled while no token arrives. kLastWait: how long the end of the
// current step is awaited after ctrl-C.
constexpr std::chrono::milliseconds kPollInterval{50}, kLastWait{100};

bool is_of(const Event& event, RequestId id) {
  return std::visit([id](const auto& some) { return some.request == id; }, event);
}

// Passes each token to the reader. Cancels the request if the reader found a stop string or wants_to_stop()
// returns true. Abandons the answer if wants_to_stop() returned true and the step under way does not end
// soon.
Answer stream(Engine& engine, GenerationRequest request, const Listener& listener, AnswerReader& reader) {
  const RequestId id = engine.submit(std::move(request));
  bool is_cancelled = false, has_token = false;
  std::optional<std::chrono::steady_clock::time_point> given_up;
  for (;;) {
    if (!is_cancelled && listener.wants_to_stop()) {
      is_cancelled = true;
      engine.cancel(id);
      given_up = std::chrono::steady_clock::now() + kLastWait;
    }
    if (!has_token && listener.on_wait) listener.on_wait();
    std::optional<Event> event = engine.wait_event(kPollInterval);
    if (given_up && std::chrono::steady_clock::now() > *given_up && !event) return reader.abandon();
    if (!event || !is_of(*event, id)) continue;  // events of an abandoned request may still arrive
    has_token = true;
    if (auto* token = std::get_if<TokenEvent>(&*event)) {
      if (is_cancelled || reader.push(std::move(*token))) continue;
      is_cancelled = true;
      engine.cancel(id);
    } else if (const auto* failed = std::get_if<FailedEvent>(&*event)) {
      throw InputError("{}", failed->message);
    } else {
      return reader.finish(std::get<FinishedEvent>(std::move(*event)));
    }
  }
}

}  // namespace

Answer stream_raw(Engine& engine, GenerationRequest request, const std::vector<std::string>& stop,
                  const Listener& listener) {
  request.stop.strings = stop;
  AnswerReader reader(listener.on_text);
  return stream(engine, std::move(request), listener, reader);
}

Answer stream_harmony(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                      const std::vector<std::string>& stop, const Listener& listener) {
  AnswerReader reader(tokenizer, stop, listener.on_text);
  return stream(engine, std::move(request), listener, reader);
}

}  // namespace nibble::cli
