#include "turn/answer_reader.h"

#include <utility>

namespace nibble {

bool AnswerReader::push(TokenEvent event) {
  if (parser_)
    take(parser_->push(event.token.token));
  else
    append(event.text);
  answer_.tokens.push_back(std::move(event.token));
  return !stop_.has_stopped();
}

Answer AnswerReader::finish(FinishedEvent event) {
  answer_.finished = std::move(event);
  if (!parser_) {
    append(answer_.finished.text);
    return std::move(answer_);
  }
  take(parser_->finish());
  append(stop_.flush());
  if (stop_.has_stopped()) answer_.finished.reason = FinishReason::kStopString;
  answer_.messages = parser_->messages();
  return std::move(answer_);
}

Answer AnswerReader::abandon() {
  Answer answer = finish({.reason = FinishReason::kCancelled});
  answer.is_abandoned = true;
  return answer;
}

void AnswerReader::append(const std::string& text) {
  answer_.text += text;
  if (!text.empty()) on_text_(harmony::AnswerPart::kAnswer, text);
}

void AnswerReader::take(const harmony::Delta& delta) {
  if (parser_->messages().empty()) return;
  const harmony::AnswerPart part = harmony::part_of(parser_->messages().back().message);
  if (part == harmony::AnswerPart::kAnswer) {
    append(stop_.push(delta.text));
    if (delta.message_ended) append(stop_.flush());
    return;
  }
  if (part == harmony::AnswerPart::kReasoning) answer_.reasoning += delta.text;
  if (!delta.text.empty()) on_text_(part, delta.text);
}

}  // namespace nibble
