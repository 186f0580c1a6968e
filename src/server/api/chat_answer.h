// Turns the tokens of a harmony model into a chat API's answer: reasoning, content, tool calls. A stream sends the deltas, a
// whole answer is their sum, so that both are the same by construction.
//
// No text of the model is lost: harmony/parse.h repairs malformed messages. A message is a tool call if the client offered
// tools that may be called and the recipient is one of them, with or without its namespace, or is another name in the namespace
// "functions" or in that of an offered tool. Text to any other recipient (a built-in tool that was not offered) is reasoning on
// the channel "analysis" and content elsewhere, so that it is neither lost nor executed.
//
// A call is never shown as more than it is. One that is cut off in its header is not shown, one that is cut off in its arguments
// has those that the model wrote so far. No other name that the name of an offered tool begins with is a call.
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
  std::string text{};                  // of kCall: part of the arguments
  bool begins_message{false};          // first text of a harmony message; a call's first delta has an id
  bool begins_paragraph{false};        // begins_message, and there was text of this kind before
  bool is_preamble{false};             // of kContent: on the channel commentary
  int call_index{0};                   // of kCall: 0 for the first call
  std::string id{};                    // only in the first delta of a call
  OfferedTool tool{};                  // of kCall
  std::vector<SampledToken> tokens{};  // of kContent: the tokens since the last delta of content

  // The text with a blank line before it where a chat's API joins several messages to one text.
  std::string paragraph() const { return (begins_paragraph ? "\n\n" : "") + text; }
};

class ChatAnswer {
 public:
  struct Call {
    std::string id;
    OfferedTool tool;
    std::string arguments;  // of a tool that takes one text: that text
  };

  // Stop strings are searched for in content only. `begun`: the header of a message that the prompt has begun, as tokens.
  ChatAnswer(const Tokenizer& tokenizer, std::vector<OfferedTool> tools, const StopParams& stop,
             std::span<const TokenId> begun = {});

  std::vector<AnswerDelta> push(const SampledToken& token);
  std::vector<AnswerDelta> finish();  // there are no more tokens, whatever the reason
  bool has_stopped() const { return matcher_.has_stopped(); }
  const std::string& stopped_by() const { return matcher_.stopped_by(); }
  // The last message is a call, and <|call|> ended it.
  bool ends_in_call() const;
  // The last message is a call that <|call|> did not end. After finish().
  bool has_cut_call() const;

  // The sum of all deltas so far.
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
  size_t num_begun_messages_{0};  // messages that have given a delta
  bool begins_message_{false};    // the next text begins a message
  bool is_preamble_{false};       // the last message with content was on commentary
  std::string reasoning_, content_;
  std::vector<Call> calls_;
  std::optional<std::string>
      custom_arguments_;  // of the last call, which takes one text, until it is complete
  std::vector<SampledToken> content_tokens_;
  size_t num_sent_tokens_{0};  // those of content_tokens_ that were in deltas
  int num_reasoning_tokens_{0};
};

}  // namespace nibble::server
