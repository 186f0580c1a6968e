// A message is
//   <|start|>ROLE[:NAME][ to=RECIPIENT][<|channel|>CHANNEL][ CONTENT_TYPE]<|message|>TEXT<|end|>
// A tool message has the tool's name as its ROLE, and an assistant message to a recipient ends in <|call|>.
// Each part is encoded separately and as ordinary text. So the ids are those of the official renderer, and no
// content can become a control token.
#include "harmony/render.h"

#include <algorithm>

#include "core/errors/error.h"
#include "harmony/content.h"
#include "harmony/control_tokens.h"

namespace nibble::harmony {

namespace {

class Writer {
 public:
  explicit Writer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void text(std::string_view text) {
    const std::vector<TokenId> ids = tokenizer_.encode(text, SpecialTokens::kOrdinary);
    rendered_.tokens.insert(rendered_.tokens.end(), ids.begin(), ids.end());
    rendered_.text += text;
  }
  void control(TokenId id) {
    rendered_.tokens.push_back(id);
    rendered_.text += tokenizer_.bytes(id);
  }
  void replace_last_control(TokenId id) {
    rendered_.text.resize(rendered_.text.size() - tokenizer_.bytes(rendered_.tokens.back()).size());
    rendered_.tokens.pop_back();
    control(id);
  }
  Rendered take() { return std::move(rendered_); }

 private:
  const Tokenizer& tokenizer_;
  Rendered rendered_;
};

void check(const Message& message, size_t index) {
  if (message.role == Role::kTool && !message.author_name)
    throw InputError("tool message {} has no name; give the tool's name, such as functions.get_time", index);
  if (message.system && message.role != Role::kSystem)
    throw InputError("message {} of role {} has system content, which only a system message may have", index,
                     name(message.role));
  if (message.developer && message.role != Role::kDeveloper)
    throw InputError("message {} of role {} has developer content, which only a developer message may have",
                     index, name(message.role));
}

void write_author(const Message& message, Writer& out) {
  if (message.role == Role::kTool) return out.text(*message.author_name);
  out.text(name(message.role));
  if (message.author_name) out.text(':' + *message.author_name);
}

void write_content_type(const std::string& type, const ControlTokens& control, Writer& out) {
  if (!type.starts_with(kConstrain)) return out.text(' ' + type);
  out.text(" ");
  out.control(control.constrain);
  out.text(std::string_view(type).substr(kConstrain.size()));
}

void write_message(const Message& message, bool has_functions, const ControlTokens& control, Writer& out) {
  out.control(control.start);
  write_author(message, out);
  if (message.recipient && *message.recipient != "all") out.text(" to=" + *message.recipient);
  if (message.channel) {
    out.control(control.channel);
    out.text(*message.channel);
  }
  if (message.content_type) write_content_type(*message.content_type, control, out);
  out.control(control.message);
  if (message.system) out.text(text_of(*message.system, has_functions));
  if (message.developer) out.text(text_of(*message.developer));
  out.text(message.text);
  out.control(message.role == Role::kAssistant && message.recipient ? control.call : control.end);
}

bool is_final(const Message& message) { return message.channel == "final"; }
bool is_assistants(const Message& message) { return message.role == Role::kAssistant; }

// Returns the index of the first message whose analysis is kept: analysis messages before it are left out.
size_t end_of_dropping(const std::vector<Message>& messages, DropAnalysis rule) {
  if (rule == DropAnalysis::kNone) return 0;
  if (rule == DropAnalysis::kBeforeLastFinal) {
    const auto last = std::find_if(messages.rbegin(), messages.rend(), is_final);
    return static_cast<size_t>(messages.rend() - last);
  }
  const auto last = std::find_if(messages.rbegin(), messages.rend(), is_assistants);
  if (last == messages.rend() || !is_final(*last))
    // The last turn is not finished: by the official rule, nothing is left out.
    return 0;
  return static_cast<size_t>(std::ranges::find_if(messages, is_final) - messages.begin());
}

}  // namespace

Rendered render(const Conversation& conversation, const Tokenizer& tokenizer, const RenderOptions& options) {
  const std::vector<Message>& messages = conversation.messages;
  const ControlTokens control(tokenizer);
  const bool any_functions = std::ranges::any_of(messages, [](const Message& message) {
    return message.developer && has_functions(*message.developer);
  });
  const size_t drop_end = end_of_dropping(messages, options.drop_analysis);

  Writer out(tokenizer);
  for (size_t i = 0; i < messages.size(); ++i) {
    if (i < drop_end && messages[i].channel == "analysis") continue;
    check(messages[i], i);
    write_message(messages[i], any_functions, control, out);
  }
  if (options.training && !messages.empty() && is_assistants(messages.back()) && is_final(messages.back()))
    out.replace_last_control(control.done);
  if (options.generation_prompt) {
    out.control(control.start);
    out.text(name(Role::kAssistant));
  }
  return out.take();
}

}  // namespace nibble::harmony
