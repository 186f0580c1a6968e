// The tokens that an answer may go on with: those that the request lists, and those that its constraint allows, where it has these.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/generation_request.h"
#include "grammar/matching/constraint.h"

namespace nibble {

class AllowedTokens final : public TokenMask {
 public:
  // null: everything is allowed by it.
  AllowedTokens(std::shared_ptr<const std::vector<TokenId>> listed, const grammar::Constraint* constraint);

  // At the same place; what one of them goes on by does not move the other.
  AllowedTokens(const AllowedTokens& other);

  bool are_all() const { return !listed_ && !constraint_; }
  bool are_listed() const { return listed_ != nullptr; }
  bool depend_on_answer() const { return constraint_ != nullptr; }
  // Where the constraint takes too much work, everything is allowed and fault() says why.
  void fill(std::span<uint32_t> words) override;

  // Goes on behind a token of the answer. Returns those that must follow it, which the caller adds to the answer and does not hand in
  // here.
  std::vector<TokenId> push(TokenId token);
  // The same for a token that may come next or not. Nothing, and of no more use, where it may not, or where that takes too much work.
  std::optional<std::vector<TokenId>> try_push(TokenId token);
  // Why the answer can't go on. It is nothing that other answers would suffer from.
  const std::optional<std::string>& fault() const { return fault_; }

 private:
  template <typename Function>
  void guard(const Function& function);

  std::shared_ptr<const std::vector<TokenId>> listed_;
  std::unique_ptr<grammar::Constraint> constraint_;
  std::optional<std::string> fault_;
};

}  // namespace nibble
