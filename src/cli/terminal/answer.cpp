#include "cli/terminal/answer.h"

#include <chrono>
#include <utility>
#include <variant>

#include "core/error.h"

namespace nibble::cli {
namespace {

// Interval of polling for ctrl-C while no token arrives.
constexpr std::chrono::milliseconds kPollInterval{100};

// Passes each token to the reader. If it found a stop string, or wants_to_stop() returns true, cancels the
// request.
Answer stream(Engine& engine, GenerationRequest request, const Listener& listener, AnswerReader& reader) {
  const RequestId id = engine.submit(std::move(request));
  bool is_cancelled = false;
  for (;;) {
    if (!is_cancelled && listener.wants_to_stop()) {
      is_cancelled = true;
      engine.cancel(id);
    }
    std::optional<Event> event = engine.wait_event(kPollInterval);
    if (!event) continue;
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
