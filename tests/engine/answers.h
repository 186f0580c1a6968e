// Collects the events of an engine into answers, and checks every stream of events: tokens come before the
// end, there is one end, and the text is valid UTF-8 at every moment.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "text/utf8_stream.h"

namespace nibble {

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<SampledToken> sampled;
  std::vector<SampledToken> prompt;  // tokens of the prompt, if their log-probabilities were requested
  std::vector<PromptEvent> reports;  // if GenerationRequest::reports_prompt is set
  std::vector<std::string> pieces;   // the text of each TokenEvent
  std::string text;                  // the whole text
  std::optional<FinishedEvent> finished;
  std::optional<FailedEvent> failed;

  bool has_ended() const { return finished || failed; }
};

inline bool is_utf8(const std::string& text) {
  Utf8Stream stream;
  std::string read = stream.push(text);
  read += stream.finish();
  return read == text;
}

class Answers {
 public:
  explicit Answers(Engine& engine) : engine_(&engine) {}

  // Waits for one event. Ten minutes without an event mean that the engine hangs: the slowest step takes
  // seconds under sanitizers.
  RequestId take() {
    const std::optional<Event> event = engine_->wait_event(std::chrono::minutes(10));
    if (!event) {
      ADD_FAILURE() << "no event in ten minutes";
      std::abort();
    }
    return std::visit([this](const auto& e) { return take(e); }, *event);
  }
  const Answer& wait_for(RequestId request) {
    while (!answers_[request].has_ended()) take();
    return answers_[request];
  }
  const Answer& operator[](RequestId request) { return answers_[request]; }
  const std::vector<RequestId>& ends() const { return ends_; }  // in the order in which requests ended

 private:
  RequestId take(const PromptEvent& event) {
    Answer& answer = answers_[event.request];
    EXPECT_TRUE(answer.tokens.empty() && !answer.has_ended()) << "progress of the prompt after it";
    answer.reports.push_back(event);
    return event.request;
  }
  RequestId take(const TokenEvent& event) {
    Answer& answer = answers_[event.request];
    EXPECT_FALSE(answer.has_ended()) << "a token after the end";
    EXPECT_TRUE(is_utf8(event.text)) << event.text;
    EXPECT_TRUE(event.prompt.empty() || answer.tokens.empty()) << "the prompt after the first token";
    if (!event.prompt.empty()) answer.prompt = event.prompt;
    answer.tokens.push_back(event.token.token);
    answer.sampled.push_back(event.token);
    answer.pieces.push_back(event.text);
    answer.text += event.text;
    return event.request;
  }
  RequestId take(const FinishedEvent& event) {
    Answer& answer = answers_[event.request];
    EXPECT_FALSE(answer.has_ended()) << "a second end";
    EXPECT_TRUE(is_utf8(event.text)) << event.text;
    EXPECT_EQ(event.num_output_tokens, static_cast<int>(answer.tokens.size()));
    EXPECT_GE(event.prefill_seconds, 0);
    EXPECT_GE(event.decode_seconds, 0);
    answer.text += event.text;
    answer.finished = event;
    ends_.push_back(event.request);
    return event.request;
  }
  RequestId take(const FailedEvent& event) {
    Answer& answer = answers_[event.request];
    EXPECT_FALSE(answer.has_ended()) << "a second end";
    EXPECT_FALSE(event.message.empty());
    answer.failed = event;
    ends_.push_back(event.request);
    return event.request;
  }

  Engine* engine_;
  std::map<RequestId, Answer> answers_;
  std::vector<RequestId> ends_;
};

}  // namespace nibble
