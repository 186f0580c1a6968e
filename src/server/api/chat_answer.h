// The tokens of a harmony model as a chat API shows them: reasoning, content, calls of tools. What a stream sends is the
// deltas; what a whole answer says is their sum, so that both are the same by construction.
//
// Whatever the model says, malformed or not, comes out: harmony/parse.h repairs it. What it addresses to a tool is a call
// where the client offered tools and the recipient is in the namespace "functions" or bears an offered tool's name. Other
// recipients (a built-in tool that nobody offered) are no one's: on the channel "analysis" their text is reasoning, else
// content, so that it is neither lost nor executed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/stop.h"
#include "harmony/message.h"
#include "harmony/parse.h"
#include "model/batch.h"
#include "text/tokenizer.h"

namespace nibble::server {

struct AnswerDelta {
  enum class Kind { kReasoning, kContent, kCall };
  Kind kind{};
  std::string text{};                  // of a call: of its arguments
  bool begins_message{false};          // of the model; a call's first delta has an id
  bool begins_paragraph{false};        // the same, and there was text of this kind before
  int call_index{0};                   // of a call
  std::string id{};                    // of a call's first delta
  std::string name{};                  // the same
  std::vector<SampledToken> tokens{};  // of content: those that it is made of, since the content before

  // What a chat adds to its text of this kind: messages are paragraphs there.
  std::string paragraph() const { return (begins_paragraph ? "\n\n" : "") + text; }
};

class ChatAnswer {
 public:
  struct Call {
    std::string id, name, arguments;
  };

  // `stop` ends the answer before any of these strings; they are looked for in content alone.
  ChatAnswer(const Tokenizer& tokenizer, const std::vector<harmony::Tool>& tools,
             const std::vector<std::string>& stop);

  std::vector<AnswerDelta> push(const SampledToken& token);
  std::vector<AnswerDelta> finish();  // the tokens have ended, well or not
  bool has_stopped() const { return matcher_.has_stopped(); }

  // The sum so far.
  const std::string& reasoning() const { return reasoning_; }
  const std::string& content() const { return content_; }
  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<SampledToken>& content_tokens() const { return content_tokens_; }
  int num_reasoning_tokens() const { return num_reasoning_tokens_; }

 private:
  std::optional<std::string> called_tool(const harmony::Message& message) const;
  std::vector<AnswerDelta> take(const harmony::Delta& delta);
  void say(AnswerDelta::Kind kind, const std::string& text, std::vector<AnswerDelta>& out);
  void call(const harmony::Delta& delta, std::vector<AnswerDelta>& out);

  const Tokenizer& tokenizer_;
  std::vector<std::string> tool_names_;
  harmony::Parser parser_;
  StopStrings matcher_;
  size_t num_begun_{0};      // messages of which something was said
  bool is_separate_{false};  // the next text begins a message
  std::string reasoning_, content_;
  std::vector<Call> calls_;
  std::vector<SampledToken> content_tokens_;
  size_t num_told_tokens_{0};  // of content_tokens_, in deltas
  int num_reasoning_tokens_{0};
};

// What ids of answers and calls end in: 96 random bits as hexadecimal digits.
std::string random_id();

}  // namespace nibble::server
