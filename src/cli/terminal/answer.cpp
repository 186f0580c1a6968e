#include "cli/terminal/answer.h"

#include <chrono>
#include <utility>
#include <variant>

#include "core/error.h"
#include "engine/stop.h"

namespace nibble::cli {
namespace {

// How long ctrl-C may go unnoticed while no token comes.
constexpr std::chrono::milliseconds kPatience{100};

// Hands each token to `on_token` until the request ends, or until that or the listener has had enough.
FinishedEvent stream(Engine& engine, GenerationRequest request, const Listener& listener,
                     const std::function<bool(TokenEvent&)>& on_token) {
  const RequestId id = engine.submit(std::move(request));
  bool has_enough = false;
  for (;;) {
    if (!has_enough && listener.wants_to_stop()) {
      has_enough = true;
      engine.cancel(id);
    }
    std::optional<Event> event = engine.wait_event(kPatience);
    if (!event) continue;
    if (auto* token = std::get_if<TokenEvent>(&*event)) {
      if (has_enough || on_token(*token)) continue;
      has_enough = true;
      engine.cancel(id);
    } else if (const auto* failed = std::get_if<FailedEvent>(&*event)) {
      throw InputError("{}", failed->message);
    } else {
      return std::get<FinishedEvent>(std::move(*event));
    }
  }
}

}  // namespace

Answer stream_raw(Engine& engine, GenerationRequest request, const std::vector<std::string>& stop,
                  const Listener& listener) {
  Answer answer;
  const auto say = [&](const std::string& text) {
    answer.text += text;
    if (!text.empty()) listener.on_text(harmony::Part::kAnswer, text);
  };
  request.stop.strings = stop;
  answer.finished = stream(engine, std::move(request), listener, [&](TokenEvent& event) {
    say(event.text);
    answer.tokens.push_back(std::move(event.token));
    return true;
  });
  say(answer.finished.text);
  return answer;
}

Answer stream_harmony(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                      const std::vector<std::string>& stop, const Listener& listener) {
  Answer answer;
  harmony::Parser parser(tokenizer, harmony::Role::kAssistant);
  StopStrings matcher(stop);
  const auto emit = [&](const std::string& text) {
    answer.text += text;
    if (!text.empty()) listener.on_text(harmony::Part::kAnswer, text);
  };
  const auto hear = [&](const harmony::Delta& delta) {
    if (parser.messages().empty()) return;
    const harmony::Part part = harmony::part_of(parser.messages().back().message);
    if (part == harmony::Part::kAnswer) {
      emit(matcher.push(delta.text));
      if (delta.message_ended) emit(matcher.flush());
      return;
    }
    if (part == harmony::Part::kReasoning) answer.reasoning += delta.text;
    if (!delta.text.empty()) listener.on_text(part, delta.text);
  };
  answer.finished = stream(engine, std::move(request), listener, [&](TokenEvent& event) {
    hear(parser.push(event.token.token));
    answer.tokens.push_back(std::move(event.token));
    return !matcher.has_stopped();
  });
  hear(parser.finish());
  emit(matcher.flush());
  if (matcher.has_stopped()) answer.finished.reason = FinishReason::kStopString;
  answer.messages = parser.messages();
  return answer;
}

}  // namespace nibble::cli
