// The state of one answer, which may contain only what its TurnGrammar allows. A matcher checks headers, and
// texts that have a grammar. Other text may be any ordinary tokens, up to the control token that ends it.
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

  // Accepts the start of the answer that the prompt already contains: the header after "<|start|>assistant"
  // and the text so far, which does not count as reasoning. Throws InputError for an illegal start.
  void accept_begun(std::span<const TokenId> begun);

  std::unique_ptr<Constraint> fork() const override { return std::make_unique<TurnConstraint>(*this); }
  // `mask` may have bits beyond the vocabulary; these become 0. Not allowed after has_ended().
  void fill_mask(std::span<uint32_t> mask) override;
  bool accept(TokenId token) override;
  std::vector<TokenId> forced_tokens() override;

  // Whether <|return|> or <|call|> was accepted: no token may follow.
  bool has_ended() const { return part_ == Part::kEnd; }

 private:
  enum class Part {
    kStart,    // the next token is <|start|>
    kAuthor,   // in a header, before <|channel|>
    kChannel,  // after <|channel|>, before <|constrain|> or <|message|>
    kType,     // after <|constrain|>, before <|message|>
    kText,     // after <|message|>, before the control token that ends the message
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
  std::string header_;                       // the header's text since its last control token
  const TurnTool* tool_{nullptr};            // the called tool in turn_->rules; null: no call
  bool is_final_{false};
  bool is_reasoning_{false};               // whether the message is on channel analysis
  std::optional<int> num_reasoning_left_;  // reasoning tokens left in the turn; absent: no limit
};

}  // namespace nibble::harmony
