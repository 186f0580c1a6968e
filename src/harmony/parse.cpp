// A stream of tokens is a sequence of messages, each
//   <|start|> HEADER <|message|> TEXT <|end|> | <|call|> | <|return|>
//   HEADER = ROLE[:NAME] [to=RECIPIENT] [<|channel|>CHANNEL] [to=RECIPIENT] [CONTENT_TYPE]
// A server must never fail on model output, lose any of it, or show a control token. A stream that the
// official parser (openai-harmony, Rust) accepts gives the same messages here, except as listed. Forms that
// are read differently, without a repair:
//   - A lone "json", "code" or "<|constrain|>..." in a header is the content type, as the official renderer
//     and models under structured output write it. (Official parser: it is the recipient.)
//   - "user:alice" is a role and a name. (Official: an unknown role.) "functions.f" alone is a tool's name.
// Faults that are repaired, with a line in `repairs`:
//   - A control token in the text is never text. (Official: it is, unless it is a terminator.) <|start|> and
//     <|channel|> end the message and begin the next header; the others are dropped.
//   - A header may be cut off by a terminator, by <|start|>, or by a second <|channel|> after words. Then its
//     first word that is no field begins the text, even in "json{"a":1}". A blank header makes no message.
//   - A header that the end of the stream cuts off makes no message. But if it names no recipient, and has
//     more words than a header may have or a word that no header has, these words are text, as above.
//   - Text after the end of a message is read as a header without <|start|>. Usually that header is cut off,
//     so that the text becomes a message of its own. Blank text between messages is dropped.
//   - If the role is missing or unknown, a first word that has a dot, or is followed by a recipient or a
//     content type, is a tool's name. Otherwise the role is the parser's (or assistant); the word is kept.
//   - A recipient without "to=" is accepted where the official parser accepts it. But "final", "analysis" or
//     "commentary" in a header without a channel is the channel. A second channel, recipient or content type
//     replaces the first. <|channel|>, <|constrain|> or "to=" without a value is dropped.
//   - Other words in the header become the first line of the text.
//   - An id without a token becomes U+FFFD. (Official: the rest of the message is lost.)
// So no ordinary text is lost or reordered: every byte after a <|message|> is in a text, and every word
// before it in a field, a text, `repairs`, or the unfinished header. A message without a channel keeps none;
// chat.h shows it as final. Text is returned as soon as it is certain, text in a header when the header ends.
#include "harmony/parse.h"

#include <algorithm>

#include "core/errors/check.h"
#include "harmony/control_tokens.h"
#include "harmony/header.h"
#include "text/utf8_stream.h"

namespace nibble::harmony {

namespace {
constexpr std::string_view kReplacement{"\xEF\xBF\xBD"};  // U+FFFD

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\n\f\r") == std::string_view::npos; }
}  // namespace

struct Parser::Impl {
  enum class State { kHeader, kText, kFinished };

  Impl(const Tokenizer& vocabulary, std::optional<Role> role)
      : tokenizer(vocabulary), control(vocabulary), speaker(role.value_or(Role::kAssistant)) {
    begin_header(/*has_start=*/role.has_value(), role);
  }

  Delta push(TokenId token) {
    NIBBLE_CHECK(state != State::kFinished, "token {} was pushed after finish()", token);
    return state == State::kHeader ? push_header(token) : push_text(token);
  }

  Delta finish() {
    NIBBLE_CHECK(state != State::kFinished, "finish() was called twice");
    const Delta delta = state == State::kHeader ? finish_header() : end_message();
    // Repairs noted after the last message began go to that message, as no later message exists.
    if (!messages.empty())
      for (const std::string& repair : repairs) note(messages.back().repairs, repair);
    state = State::kFinished;
    return delta;
  }

  Delta push_header(TokenId token) {
    if (token == control.message) return end_header();
    if (token == control.start || control.is_terminator(token)) {
      const Delta delta = cut_header(token);
      begin_header(token == control.start, std::nullopt);
      return delta;
    }
    if (token == control.channel || token == control.constrain) {
      header.text += utf8.finish();
      const size_t last_channel = header.text.rfind(kChannelMark);
      if (token == control.channel && last_channel != std::string::npos &&
          holds_text(std::string_view(header.text).substr(last_channel))) {
        const Delta delta = cut_header(token);
        begin_at_channel();
        return delta;
      }
      header.text += token == control.channel ? kChannelMark : kConstrainMark;
    } else {
      header.text += ordinary(token, "the header", repairs);
    }
    return {};
  }

  Delta push_text(TokenId token) {
    if (control.is_terminator(token)) {
      const Delta delta = end_message();
      messages.back().ends_in_call = token == control.call;
      begin_header(/*has_start=*/false, std::nullopt);
      return delta;
    }
    std::vector<std::string>& own_repairs = messages.back().repairs;
    if (token == control.start || token == control.channel) {
      note(own_repairs, fmt::format("the message was ended by {}", tokenizer.bytes(token)));
      const Delta delta = end_message();
      if (token == control.start)
        begin_header(/*has_start=*/true, std::nullopt);
      else
        begin_at_channel();
      return delta;
    }
    return add_text(ordinary(token, "the text", own_repairs));
  }

  // Returns the text that a token adds to a header or to a message; empty for a control token.
  std::string ordinary(TokenId token, const char* place, std::vector<std::string>& place_repairs) {
    const std::string_view bytes = tokenizer.bytes(token);
    if (bytes.empty()) {
      note(place_repairs, fmt::format("an id without a token became U+FFFD in {}", place));
      return utf8.finish() + std::string(kReplacement);
    }
    if (tokenizer.is_special(token)) {
      note(place_repairs, fmt::format("{} was removed from {}", bytes, place));
      return utf8.finish();
    }
    return utf8.push(bytes);
  }

  void begin_header(bool has_start, std::optional<Role> role) {
    header = {.text = "", .role = role, .speaker = speaker, .has_start = has_start};
    state = State::kHeader;
  }

  // Begins a message that starts at its channel, without <|start|> and role.
  void begin_at_channel() {
    begin_header(/*has_start=*/false, speaker);
    header.text = kChannelMark;
  }

  Delta end_header() {
    header.text += utf8.finish();
    header.has_message = true;
    std::string& text = add_message().text;
    if (!text.empty()) text += '\n';
    state = State::kText;
    return {.header_ended = true, .text = text};
  }

  Delta finish_header() {
    header.text += utf8.finish();
    if (is_blank(header.text) || !may_go_on(header)) return cut_header(std::nullopt);
    for (const char c : header.text) {
      if (c == kChannelMark)
        unfinished += tokenizer.bytes(control.channel);
      else if (c == kConstrainMark)
        unfinished += tokenizer.bytes(control.constrain);
      else
        unfinished += c;
    }
    return {};
  }

  // `by`: the token that cut the header off; nullopt: the end of the stream.
  Delta cut_header(std::optional<TokenId> by) {
    header.text += utf8.finish();
    const std::string cut = fmt::format("cut off by {}", by ? tokenizer.bytes(*by) : "the end of the stream");
    if (is_blank(header.text)) {
      const bool is_stray = by && control.is_terminator(*by);
      if (header.has_start || is_stray) note(repairs, fmt::format("a blank header was {}", cut));
      return {};
    }
    note(repairs, fmt::format("the header was {}", cut));
    const std::string& text = add_message().text;
    ParsedMessage& parsed = messages.back();
    parsed.is_complete = parsed.has_cut_header = true;
    parsed.ends_in_call = by == control.call;
    return {.header_ended = true, .text = text, .message_ended = true};
  }

  // Appends the message whose header has just ended. Words of the header that are not fields begin its text.
  Message& add_message() {
    if (!header.has_start) note(repairs, "the message began without <|start|>");
    Message message = read_header(header, repairs);
    messages.push_back({.message = std::move(message), .repairs = std::move(repairs)});
    repairs.clear();
    return messages.back().message;
  }

  Delta add_text(std::string text) {
    messages.back().message.text += text;
    return {.text = std::move(text)};
  }

  Delta end_message() {
    Delta delta = add_text(utf8.finish());
    messages.back().is_complete = true;
    delta.message_ended = true;
    return delta;
  }

  static void note(std::vector<std::string>& repairs, std::string repair) {
    if (std::ranges::find(repairs, repair) == repairs.end()) repairs.push_back(std::move(repair));
  }

  const Tokenizer& tokenizer;
  const ControlTokens control;
  const Role speaker;

  State state{State::kHeader};
  Header header;
  std::string unfinished;  // the header that the end of the stream cut off
  // Repairs of the current header and of the text before that header. The next message gets them.
  std::vector<std::string> repairs;
  Utf8Stream utf8;  // holds an incomplete character
  std::vector<ParsedMessage> messages;
};

Parser::Parser(const Tokenizer& tokenizer, std::optional<Role> role)
    : impl_(std::make_unique<Impl>(tokenizer, role)) {}
Parser::Parser(Parser&&) noexcept = default;
Parser& Parser::operator=(Parser&&) noexcept = default;
Parser::~Parser() = default;

Delta Parser::push(TokenId token) { return impl_->push(token); }
Delta Parser::finish() { return impl_->finish(); }
const std::vector<ParsedMessage>& Parser::messages() const { return impl_->messages; }
const std::string& Parser::unfinished_header() const { return impl_->unfinished; }

}  // namespace nibble::harmony
