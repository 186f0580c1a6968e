// Turns a harmony model's tokens into a chat answer: reasoning, content, tool calls. A stream sends deltas,
// and a whole answer is the sum of the same deltas, so both have the same content.
//
// No text of the model is lost; harmony/parse.h repairs malformed messages. A message is a tool call if its
// recipient is an offered tool, with or without its namespace, and tool_choice allows that tool. It is also a
// call if tool_choice allows any tool and the recipient is another name in "functions" or in the namespace of
// an offered tool. Text to other recipients, such as built-in tools, is never executed: it becomes reasoning
// (channel "analysis") or content.
//
// An incomplete call is never shown as complete. A call cut off in its header is not shown. A call cut off in
// its arguments is shown with the arguments so far. A mere prefix of an offered tool's name is not a call.
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
#include "server/api/stream_pace.h"
#include "server/api/tools.h"
#include "text/tokenizer.h"

namespace nibble::server {

struct AnswerDelta {
  enum class Kind { kReasoning, kContent, kCall };
  Kind kind{};
  std::string text{};                  // kCall: part of the arguments
  bool begins_message{false};          // kReasoning, kContent: first delta of a harmony message
  bool begins_paragraph{false};        // begins_message, and the answer already has text of this kind
  bool is_preamble{false};             // kContent: the message is on the channel "commentary"
  int call_index{0};                   // kCall: 0 for the first call
  std::string id{};                    // kCall: set in the first delta of a call, empty in later ones
  OfferedTool tool{};                  // kCall: the called tool
  std::vector<SampledToken> tokens{};  // kContent: the tokens since the last delta of content

  // Returns the text, after a blank line if it begins a paragraph: chat APIs join messages into one text.
  std::string paragraph() const { return (begins_paragraph ? "\n\n" : "") + text; }
};

class ChatAnswer {
 public:
  struct Call {
    std::string id;
    OfferedTool tool;
    std::string arguments;  // JSON; for a custom tool, its text
  };

  // Searches for stop strings only in content. `begun`: header of the message that the prompt leaves
  // unfinished. `stream_interval`: push() returns deltas once per this number of tokens (stream_pace.h).
  ChatAnswer(const Tokenizer& tokenizer, std::vector<OfferedTool> tools, const StopParams& stop,
             std::span<const TokenId> begun = {}, int stream_interval = 1);

  std::vector<AnswerDelta> push(const SampledToken& token);
  std::vector<AnswerDelta> finish();  // must be called after the last token, whatever ended the answer
  bool has_stopped() const { return matcher_.has_stopped(); }
  const std::string& stopped_by() const { return matcher_.stopped_by(); }
  bool ends_in_call() const;  // whether the last message is a call that ended with <|call|>
  bool has_cut_call() const;  // whether the last message is a call that was cut off; valid after finish()

  // Return what all deltas so far add up to.
  const std::string& reasoning() const { return reasoning_; }
  const std::string& content() const { return content_; }
  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<SampledToken>& content_tokens() const { return content_tokens_; }
  int num_reasoning_tokens() const { return num_reasoning_tokens_; }

 private:
  std::optional<OfferedTool> called_tool(const harmony::ParsedMessage& parsed) const;
  std::vector<AnswerDelta> join(std::vector<AnswerDelta> deltas, bool is_end);
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
  StreamPace pace_;
  std::vector<AnswerDelta> joined_;  // deltas that push() has not returned yet
  int num_tokens_{0};
  size_t num_begun_messages_{0};  // number of messages that have produced a delta
  bool begins_message_{false};    // the next text begins a message
  bool is_preamble_{false};       // whether the last message with content is on the channel "commentary"
  std::string reasoning_, content_;
  std::vector<Call> calls_;
  // Arguments so far of the last call. Set only while that call is incomplete and of a custom tool.
  std::optional<std::string> custom_arguments_;
  std::vector<SampledToken> content_tokens_;
  size_t num_sent_tokens_{0};  // number of content_tokens_ that are in deltas
  int num_reasoning_tokens_{0};
};

}  // namespace nibble::server
