// Turns the events of one request into an answer: reasoning, calls and text for the user.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/event.h"
#include "engine/stop.h"
#include "harmony/chat.h"
#include "harmony/parse.h"
#include "text/tokenizer.h"

namespace nibble {

struct Answer {
  std::string text;       // text for the user
  std::string reasoning;  // the analysis channel
  // All messages of the answer, reasoning included. Empty if the answer is raw text.
  std::vector<harmony::ParsedMessage> messages;
  std::vector<SampledToken> tokens;
  FinishedEvent finished;
  // Whether the caller gave up waiting for the end of a step (AnswerReader::abandon). Then `finished` has no
  // counts, and the engine is busy until the step ends.
  bool is_abandoned{false};
};

class AnswerReader {
 public:
  // Receives a piece of text as soon as the piece cannot become part of a stop string.
  using OnText = std::function<void(harmony::AnswerPart, std::string_view text)>;

  // Reads raw text. The engine itself searches this text for the request's stop strings.
  explicit AnswerReader(OnText on_text)
      : on_text_(std::move(on_text)), stop_(std::span<const std::string>()) {}
  // Reads a harmony answer, which ends before the first of the `stop` strings in the text for the user. The
  // tokenizer must outlive the reader.
  AnswerReader(const Tokenizer& tokenizer, const std::vector<std::string>& stop, OnText on_text)
      : on_text_(std::move(on_text)),
        parser_(std::in_place, tokenizer, harmony::Role::kAssistant),
        stop_(stop) {}

  // Returns false if a stop string was found: the caller cancels the request and pushes no further token.
  bool push(TokenEvent event);
  Answer finish(FinishedEvent event);
  Answer abandon();  // instead of finish(), for a cancelled request whose last event has not come

 private:
  void append(const std::string& text);
  void take(const harmony::Delta& delta);

  OnText on_text_;
  std::optional<harmony::Parser> parser_;  // absent for raw text
  StopStrings stop_;
  Answer answer_;
};

}  // namespace nibble
