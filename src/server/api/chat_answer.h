// Turns a harmony model's tokens into a chat answer: reasoning, content, tool calls. A stream sends the
// deltas and a whole answer is their sum, so both are equal by construction.
//
// No text of the model is lost; harmony/parse.h repairs malformed messages. A message is a tool call if the
// request has a callable tool and the recipient is one (with or without its namespace), or another name in
// the namespace "functions" or of an offered tool. Text to other recipients, such as built-in tools that were
// not offered, is never executed: it becomes reasoning (channel "analysis") or content (other channels).
//
// A call is never shown as more complete than it is: a call cut off in its header is not shown; one cut off
// in its arguments shows the part written so far. A mere prefix of an offered tool's name is not a call.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/generation_request.h"
#include "engine/stop.h"
#include "harmony/message.h"
#include "harmony/parse.h"
#include "model/batch.h"
#include "server/api/tools.h"
#include "text/tokenizer.h"

namespace nibble::server {

struct AnswerDelta {
  enum class Kind { kReasoning, kContent, kCall };
  Kind kind{};
  std::string text{};                  // kCall: part of the arguments
  bool begins_message{false};          // first text of a harmony message; for calls see `id`
  bool begins_paragraph{false};        // begins_message, and earlier text of this kind exists
  bool is_preamble{false};             // kContent: on the channel "commentary"
  int call_index{0};                   // kCall: 0 for the first call
  std::string id{};                    // kCall: only in the first delta of the call
  OfferedTool tool{};                  // kCall
  std::vector<SampledToken> tokens{};  // kContent: the tokens since the last delta of content

  // Returns the text, after a blank line if it begins a paragraph: chat APIs join messages into one text.
  std::string paragraph() const { return (begins_paragraph ? "\n\n" : "") + text; }
};

class ChatAnswer {
 public:
  struct Call {
    std::string id;
    OfferedTool tool;
    std::string arguments;  // a custom tool's text, or JSON
  };

  // Stop strings are searched only in content. `begun`: tokens of a message header at the prompt's end.
  ChatAnswer(const Tokenizer& tokenizer, std::vector<OfferedTool> tools, const StopParams& stop,
             std::span<const TokenId> begun = {});

  std::vector<AnswerDelta> push(const SampledToken& token);
  std::vector<AnswerDelta> finish();  // call after the last token, whatever ended the answer
  bool has_stopped() const { return matcher_.has_stopped(); }
  const std::string& stopped_by() const { return matcher_.stopped_by(); }
  bool ends_in_call() const;  // whether the last message is a call that ended with <|call|>
  bool has_cut_call() const;  // whether the last message is a call that was cut off; valid after finish()

  // The sums of all deltas so far.
  const std::string& reasoning() const { return reasoning_; }
  const std::string& content() const { return content_; }
  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<SampledToken>& content_tokens() const { return content_tokens_; }
  int num_reasoning_tokens() const { return num_reasoning_tokens_; }

 private:
  std::optional<OfferedTool> called_tool(const harmony::ParsedMessage& parsed) const;
  std::vector<AnswerDelta> read_delta(const harmony::Delta& delta);
  std::string searched(const std::string& text);
  void add_text(AnswerDelta::Kind kind, const std::string& text, std::vector<AnswerDelta>& out);
  void add_arguments(const harmony::Delta& delta, bool is_whole, std::vector<AnswerDelta>& out);
  void add_call_text(std::string text, std::vector<AnswerDelta>& out);

  const Tokenizer& tokenizer_;
  std::vector<OfferedTool> tools_;
  harmony::Parser parser_;
  StopParams stop_;
  StopStrings matcher_;
  int num_tokens_{0};
  size_t num_begun_messages_{0};  // messages that have produced a delta
  bool begins_message_{false};    // the next text begins a message
  bool is_preamble_{false};       // the last message with content is on "commentary"
  std::string reasoning_, content_;
  std::vector<Call> calls_;
  // Arguments of the last call until it is complete, if it calls a custom tool.
  std::optional<std::string> custom_arguments_;
  std::vector<SampledToken> content_tokens_;
  size_t num_sent_tokens_{0};  // number of the first content_tokens_ that deltas have reported
  int num_reasoning_tokens_{0};
};

}  // namespace nibble::server
