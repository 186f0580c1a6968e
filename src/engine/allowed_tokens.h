// The tokens that may come next in an answer: those that both the request's list and its grammar allow.
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
  AllowedTokens(std::shared_ptr<const std::vector<TokenId>> listed, const grammar::Constraint* constraint);

  // Copies the grammar's position in the answer too. Copy and original then advance independently.
  AllowedTokens(const AllowedTokens& other);

  bool are_all() const { return !listed_ && !constraint_; }
  bool are_listed() const { return listed_ != nullptr; }
  bool depend_on_answer() const { return constraint_ != nullptr; }
  // Clears disallowed tokens' bits. If the grammar takes too much work, sets fault() and applies only the
  // request's list.
  void fill(std::span<uint32_t> words) override;

  // Advances the constraint past a token of the answer. Returns the tokens that must follow it: the caller
  // adds them to the answer and must not pass them to push().
  std::vector<TokenId> push(TokenId token);
  // Like push(), for a token that may be disallowed. Returns nullopt if the token is disallowed or the
  // constraint takes too much work. After nullopt the object must not be used.
  std::optional<std::vector<TokenId>> try_push(TokenId token);
  // Returns the reason why the constraint can't continue (too much work); empty if it can.
  const std::optional<std::string>& fault() const { return fault_; }

 private:
  template <typename Function>
  void guard(const Function& function);

  std::shared_ptr<const std::vector<TokenId>> listed_;
  std::unique_ptr<grammar::Constraint> constraint_;
  std::optional<std::string> fault_;
};

}  // namespace nibble
