#include "cli/terminal/answer.h"

#include <chrono>
#include <utility>
#include <variant>

#include "core/error.h"
#include "engine/stop.h"

namespace nibble::cli {
namespace {

// Interval for polling ctrl-C while no token arrives.
constexpr std::chrono::milliseconds kPollInterval{100};

// Calls `on_token` for each token. Cancels the request if `on_token` returns false or wants_to_stop() true.
FinishedEvent stream(Engine& engine, GenerationRequest request, const Listener& listener,
                     const std::function<bool(TokenEvent&)>& on_token) {
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
      if (is_cancelled || on_token(*token)) continue;
      is_cancelled = true;
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
  const auto append = [&](const std::string& text) {
    answer.text += text;
    if (!text.empty()) listener.on_text(harmony::AnswerPart::kAnswer, text);
  };
  request.stop.strings = stop;
  answer.finished = stream(engine, std::move(request), listener, [&](TokenEvent& event) {
    append(event.text);
    answer.tokens.push_back(std::move(event.token));
    return true;
  });
  append(answer.finished.text);
  return answer;
}

Answer stream_harmony(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                      const std::vector<std::string>& stop, const Listener& listener) {
  Answer answer;
  harmony::Parser parser(tokenizer, harmony::Role::kAssistant);
  StopStrings matcher(stop);
  const auto append = [&](const std::string& text) {
    answer.text += text;
    if (!text.empty()) listener.on_text(harmony::AnswerPart::kAnswer, text);
  };
  const auto take = [&](const harmony::Delta& delta) {
    if (parser.messages().empty()) return;
    const harmony::AnswerPart part = harmony::part_of(parser.messages().back().message);
    if (part == harmony::AnswerPart::kAnswer) {
      append(matcher.push(delta.text));
      if (delta.message_ended) append(matcher.flush());
      return;
    }
    if (part == harmony::AnswerPart::kReasoning) answer.reasoning += delta.text;
    if (!delta.text.empty()) listener.on_text(part, delta.text);
  };
  answer.finished = stream(engine, std::move(request), listener, [&](TokenEvent& event) {
    take(parser.push(event.token.token));
    answer.tokens.push_back(std::move(event.token));
    return !matcher.has_stopped();
  });
  take(parser.finish());
  append(matcher.flush());
  if (matcher.has_stopped()) answer.finished.reason = FinishReason::kStopString;
  answer.messages = parser.messages();
  return answer;
}

}  // namespace nibble::cli
