// The state of one answer whose messages must be what a TurnGrammar allows, token by token. A matcher checks
// headers and texts with a grammar; any other text is ordinary tokens and the control token that ends it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "grammar/matching/constraint.h"
#include "grammar/matching/matcher.h"
#include "harmony/turn_grammar.h"

namespace nibble::harmony {

class TurnConstraint : public grammar::Constraint {
 public:
  // Starts after "<|start|>assistant".
  explicit TurnConstraint(std::shared_ptr<const TurnGrammar> turn);

  // Accepts the answer's start that the prompt already contains: a header, from after "<|start|>assistant",
  // and the start of its text. It does not count as reasoning. Throws InputError if it is illegal.
  void accept_begun(std::span<const TokenId> begun);

  std::unique_ptr<Constraint> fork() const override { return std::make_unique<TurnConstraint>(*this); }
  // `mask` may be longer than the vocabulary's: ids without a token are illegal. Not after has_ended().
  void fill_mask(std::span<uint32_t> mask) override;
  bool accept(TokenId token) override;
  std::vector<TokenId> forced_tokens() override;

  // Whether <|return|> or <|call|> was accepted: no token may follow.
  bool has_ended() const { return part_ == Part::kEnd; }

 private:
  enum class Part {
    kStart,    // before <|start|>
    kAuthor,   // up to <|channel|>
    kChannel,  // up to <|constrain|> or <|message|>
    kType,     // up to <|message|>
    kText,     // up to the control token that ends the message
    kEnd,
  };

  void begin_header(Part part, const TurnGrammar::Text& text);
  void begin_text();
  void read_recipient();
  bool may_end_channel_with(TokenId control) const;
  bool must_end_reasoning() const { return is_reasoning_ && num_reasoning_left_ == 0; }
  bool allows_control(TokenId control) const;
  void go_behind(TokenId control);
  TokenId terminator() const;

  std::shared_ptr<const TurnGrammar> turn_;
  Part part_{Part::kAuthor};
  std::optional<grammar::Matcher> matcher_;  // absent before <|start|>, in free text and at the end
  // State of the message that is being written.
  std::string header_;             // the header's text since its last control token
  const TurnTool* tool_{nullptr};  // one of turn_'s tools; null if the message is not a call
  bool is_final_{false};
  bool is_reasoning_{false};               // the text is on the analysis channel
  std::optional<int> num_reasoning_left_;  // reasoning tokens left in the turn; absent: no limit
};

}  // namespace nibble::harmony
