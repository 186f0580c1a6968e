#include "harmony/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harmony/control_tokens.h"

namespace nibble::harmony {

namespace {

constexpr std::string_view kWhitespace{" \t\n\f\r"};
constexpr std::string_view kEndsWord{" \t\n\f\r\xFE\xFF"};
constexpr std::array<std::string_view, 3> kChannels{"analysis", "commentary", "final"};

bool is_channel(std::string_view word) { return std::ranges::find(kChannels, word) != kChannels.end(); }
bool is_bare_content_type(std::string_view word) { return word == "json" || word == "code"; }

enum class Kind { kPlain, kRecipient, kChannel, kConstrain };

struct Word {
  Kind kind;
  std::string_view value;  // without "to=" or the mark (kChannelMark, kConstrainMark)
  size_t begin;            // offset of the whole word in the header's text
  bool is_taken{false};    // whether it became a field or was dropped

  size_t end_of(std::string_view text) const {
    return static_cast<size_t>(value.data() - text.data()) + value.size();
  }
};

std::vector<Word> words_of(std::string_view text) {
  std::vector<Word> words;
  size_t at = 0;
  while ((at = text.find_first_not_of(kWhitespace, at)) != std::string_view::npos) {
    const size_t begin = at;
    Kind kind = Kind::kPlain;
    if (text[at] == kChannelMark || text[at] == kConstrainMark) {
      kind = text[at] == kChannelMark ? Kind::kChannel : Kind::kConstrain;
      at += 1;
    } else if (text.substr(at).starts_with("to=")) {
      kind = Kind::kRecipient;
      at += 3;
    }
    size_t end = std::min(text.find_first_of(kEndsWord, at), text.size());
    if (kind == Kind::kChannel) end = std::min(text.find('<', at), end);
    words.push_back({kind, text.substr(at, end - at), begin});
    at = end;
  }
  return words;
}

// Returns the part of a word that can be a name: "json" of "json{\"a\":1}".
std::string_view leading_name(std::string_view word) {
  const auto is_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_.:/+-").find(c) != std::string_view::npos;
  };
  return word.substr(0, static_cast<size_t>(std::ranges::find_if_not(word, is_of_name) - word.begin()));
}

class HeaderReader {
 public:
  HeaderReader(const Header& header, std::vector<std::string>& repairs)
      : header_(header), repairs_(repairs), words_(words_of(header.text)) {}

  Message read() {
    join_separated_marks();
    read_channel();
    read_role();
    read_bare_channel();
    if (is_regular())
      read_regular();
    else
      read_irregular();
    return std::move(message_);
  }

 private:
  template <typename... Args>
  void repaired(fmt::format_string<Args...> format, Args&&... args) {
    repairs_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  std::vector<Word*> untaken() {
    std::vector<Word*> rest;
    for (Word& word : words_)
      if (!word.is_taken) rest.push_back(&word);
    return rest;
  }

  // Removes the wrong space from "<|channel|> final", "to= functions.f" and "<|constrain|> json".
  void join_separated_marks() {
    for (size_t i = 0; i + 1 < words_.size(); ++i) {
      Word& mark = words_[i];
      Word& next = words_[i + 1];
      if (mark.kind == Kind::kPlain || !mark.value.empty() || next.kind != Kind::kPlain) continue;
      // The next word may be text: join it only if it is a channel's name, or if the header is complete.
      if (mark.kind == Kind::kChannel ? !is_channel(next.value) : !header_.has_message) continue;
      repaired("the space before '{}' was removed", next.value);
      next.kind = mark.kind;
      mark.is_taken = true;
    }
  }

  void read_channel() {
    for (size_t i = 0; i < words_.size(); ++i) {
      Word& word = words_[i];
      if (word.kind != Kind::kChannel || word.is_taken) continue;
      word.is_taken = true;
      // "<|channel|>finalThe answer": without <|message|>, the text starts after the channel's name.
      if (!header_.has_message)
        for (const std::string_view channel : kChannels)
          if (word.value.starts_with(channel)) word.value = word.value.substr(0, channel.size());
      if (word.value.empty()) {
        repaired("<|channel|> without a channel was dropped");
        continue;
      }
      if (message_.channel) {
        repaired("channel '{}' was replaced by '{}', which follows it", *message_.channel, word.value);
        // The 20b model sometimes writes "<|channel|>commentary to=assistant<|channel|>analysis". An
        // assistant sends itself no messages, so the recipient is dropped together with the first channel.
        Word& before = words_[i - 1];
        if (before.kind == Kind::kRecipient && before.value == "assistant" && !before.is_taken) {
          before.is_taken = true;
          repaired("to=assistant was dropped with the replaced channel");
        }
      }
      message_.channel = word.value;
    }
  }

  // Reads a channel's name that lacks its control token: "final<|message|>".
  void read_bare_channel() {
    const std::vector<Word*> rest = untaken();
    if (message_.channel || !header_.has_message || rest.empty()) return;
    if (rest[0]->kind != Kind::kPlain || !is_channel(rest[0]->value)) return;
    repaired("'{}' was read as the channel although <|channel|> is missing", rest[0]->value);
    message_.channel = rest[0]->value;
    rest[0]->is_taken = true;
  }

  void read_role() {
    const auto first = std::ranges::find_if(words_, [](const Word& word) { return !word.is_taken; });
    const bool is_word = first != words_.end() && first->kind == Kind::kPlain;
    message_.role = header_.role.value_or(header_.speaker);
    if (header_.role) {
      if (is_word && first->value == name(*header_.role)) first->is_taken = true;
      return;
    }
    if (is_word && (header_.has_start || header_.has_message || message_.channel) && read_author(*first)) {
      first->is_taken = true;
      return;
    }
    if (header_.has_start) repaired("the role is missing; {} was assumed", name(header_.speaker));
  }

  // Reads "assistant", "user:alice" or, after <|start|>, a tool's name in the role's position.
  bool read_author(const Word& word) {
    const size_t colon = std::min(word.value.find(':'), word.value.size());
    const std::optional<Role> role = role_of(word.value.substr(0, colon));
    if (role && *role != Role::kTool) {
      message_.role = *role;
      if (colon < word.value.size()) message_.author_name = word.value.substr(colon + 1);
      return true;
    }
    if (!header_.has_start || !is_tool(word)) return false;
    message_.role = Role::kTool;
    message_.author_name = word.value;
    return true;
  }

  // Whether an unknown first word is a tool's name: it is no channel's name, and it has a dot ("a.tool"), or
  // precedes a recipient, or is in a complete header with at most three words left.
  bool is_tool(const Word& word) {
    if (is_channel(word.value)) return false;
    if (word.value.find('.') != std::string_view::npos) return true;
    const std::vector<Word*> rest = untaken();
    if (std::ranges::any_of(rest, [](const Word* other) { return other->kind == Kind::kRecipient; }))
      return true;
    if (!header_.has_message || rest.size() > 3) return false;
    repaired("the unknown role '{}' was read as a tool's name", word.value);
    return true;
  }

  // Whether the header is complete and the words left are a recipient, then a content type; either may be
  // absent. The official parser accepts nothing else.
  bool is_regular() {
    const std::vector<Word*> rest = untaken();
    if (!header_.has_message || rest.size() > 2) return false;
    return rest.size() < 2 || (rest[0]->kind != Kind::kConstrain && rest[1]->kind != Kind::kRecipient);
  }

  void read_regular() {
    std::vector<Word*> rest = untaken();
    const bool ends_in_type =
        !rest.empty() && (rest.size() == 2 || rest[0]->kind == Kind::kConstrain ||
                          (rest[0]->kind == Kind::kPlain && is_bare_content_type(rest[0]->value)));
    if (ends_in_type) {
      set_content_type(*rest.back());
      rest.pop_back();
    }
    if (rest.empty()) return;
    if (rest[0]->kind == Kind::kPlain)
      repaired("'{}' was read as the recipient although to= is missing", rest[0]->value);
    set_recipient(rest[0]->value);
  }

  // Reads the words that are certainly fields. All other words become text.
  void read_irregular() {
    const size_t end = end_of_fields();
    for (size_t i = 0; i < end; ++i) {
      Word& word = words_[i];
      if (word.kind != Kind::kRecipient || word.is_taken) continue;
      take(word, name_in(word));
      if (message_.recipient) repaired("recipient '{}' was replaced by a later one", *message_.recipient);
      set_recipient(word.value);
    }
    for (size_t i = 0; i < end; ++i) {
      Word& word = words_[i];
      const bool is_type = word.kind == Kind::kConstrain || (message_.recipient && !message_.content_type &&
                                                             is_bare_content_type(name_in(word)));
      if (word.is_taken || !is_type) continue;
      take(word, name_in(word));
      if (message_.content_type)
        repaired("content type '{}' was replaced by a later one", *message_.content_type);
      set_content_type(word);
    }
    for (size_t i = end; i < words_.size(); ++i) {
      if (words_[i].kind != Kind::kConstrain || words_[i].is_taken) continue;
      take(words_[i], words_[i].value.substr(0, 0));  // takes the mark only
      repaired("<|constrain|> was removed from the text");
    }
    message_.text = leftover();
    if (!header_.has_message) return;
    if (message_.text.empty())
      repaired("the parts of the header were in the wrong order");
    else
      repaired("unknown words of the header became the first line of the text");
  }

  // Returns the number of leading words that may be fields: all words if the header is complete, else the
  // words before the text.
  size_t end_of_fields() const {
    if (header_.has_message) return words_.size();
    bool has_recipient = false;
    for (size_t i = 0; i < words_.size(); ++i) {
      const Word& word = words_[i];
      if (word.is_taken) continue;
      const std::string_view name = leading_name(word.value);
      if (word.kind == Kind::kPlain && !(has_recipient && is_bare_content_type(name))) return i;
      if (name.size() < word.value.size()) return i + 1;  // the text follows without a space
      has_recipient |= word.kind == Kind::kRecipient;
    }
    return words_.size();
  }

  std::string_view name_in(const Word& word) const {
    return header_.has_message ? word.value : leading_name(word.value);
  }

  void set_recipient(std::string_view recipient) {
    if (recipient.empty()) return repaired("to= without a recipient was dropped");
    message_.recipient = recipient;
  }

  void set_content_type(const Word& word) {
    if (word.value.empty()) return repaired("<|constrain|> without a content type was dropped");
    message_.content_type = word.kind == Kind::kConstrain ? std::string(kConstrain) : "";
    *message_.content_type += word.value;
  }

  void take(Word& word, std::string_view part) {
    word.value = part;
    word.is_taken = true;
  }

  // Returns the header's text without its fields: the start of the message's text.
  std::string leftover() const {
    std::string out;
    size_t at = 0;
    for (const Word& word : words_) {
      if (!word.is_taken) continue;
      out += header_.text.substr(at, word.begin - at);
      at = word.end_of(header_.text);
    }
    out += header_.text.substr(at);
    const size_t begin = std::min(out.find_first_not_of(kWhitespace), out.size());
    return out.substr(begin, out.find_last_not_of(kWhitespace) + 1 - begin);
  }

  const Header& header_;
  std::vector<std::string>& repairs_;
  std::vector<Word> words_;
  Message message_;
};

}  // namespace

bool holds_text(std::string_view channel_and_more) {
  const std::vector<Word> words = words_of(channel_and_more);
  return std::ranges::any_of(
      words, [](const Word& word) { return word.kind == Kind::kPlain && !is_bare_content_type(word.value); });
}

bool may_go_on(const Header& header) {
  const size_t most = header.role ? 2 : 3;  // author (unless known), recipient without "to=", type
  size_t num_plain = 0;
  bool is_of_names = true;
  for (const Word& word : words_of(header.text)) {
    if (word.kind == Kind::kRecipient) return true;
    num_plain += word.kind == Kind::kPlain;
    is_of_names &= leading_name(word.value).size() == word.value.size();
  }
  return is_of_names && num_plain <= most;
}

Message read_header(const Header& header, std::vector<std::string>& repairs) {
  return HeaderReader(header, repairs).read();
}

}  // namespace nibble::harmony
