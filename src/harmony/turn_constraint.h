// A place in an answer whose messages must be what a TurnGrammar allows, token by token. In headers and in texts under a grammar it asks
// a matcher; any other text is ordinary tokens and the control token that ends its message.
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
  // Stands behind "<|start|>assistant".
  explicit TurnConstraint(std::shared_ptr<const TurnGrammar> turn);

  // Goes on behind what the prompt has of the answer already: a message's header, from behind "<|start|>assistant", and the beginning of
  // its text, whose tokens count as no reasoning of the answer. Throws InputError where that is not what the answer may be.
  void accept_begun(std::span<const TokenId> begun);

  std::unique_ptr<Constraint> fork() const override { return std::make_unique<TurnConstraint>(*this); }
  // `mask` may be longer than the vocabulary's: ids without a token are never legal. Not to be called behind the turn's end.
  void fill_mask(std::span<uint32_t> mask) override;
  bool accept(TokenId token) override;
  std::vector<TokenId> forced_tokens() override;

  // <|return|> or <|call|> was accepted: nothing may follow.
  bool has_ended() const { return part_ == Part::kEnd; }

 private:
  enum class Part {
    kStart,    // in front of <|start|>
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
  std::optional<grammar::Matcher> matcher_;  // none: in front of <|start|>, in free text, at the end
  // These are of the message that is being written.
  std::string header_;             // since its last control token
  const TurnTool* tool_{nullptr};  // one of turn_'s; null: no call
  bool is_final_{false};
  bool is_reasoning_{false};  // its text has begun
  // These are of the turn.
  std::optional<int> num_reasoning_left_;  // tokens of it that may still come; nothing: any number
};

}  // namespace nibble::harmony
