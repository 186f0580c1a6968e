#include "engine/allowed_tokens.h"

#include <algorithm>
#include <utility>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/tokens/token_mask.h"

namespace nibble {
namespace {

constexpr uint32_t kAll{~uint32_t{0}};

}  // namespace

AllowedTokens::AllowedTokens(std::shared_ptr<const std::vector<TokenId>> listed,
                             const grammar::Constraint* constraint)
    : listed_(std::move(listed)), constraint_(constraint ? constraint->fork() : nullptr) {}

AllowedTokens::AllowedTokens(const AllowedTokens& other)
    : TokenMask(other),
      listed_(other.listed_),
      constraint_(other.constraint_ ? other.constraint_->fork() : nullptr),
      fault_(other.fault_) {}

template <typename Function>
void AllowedTokens::guard(const Function& function) {
  if (fault_) return;
  try {
    function();
  } catch (const InputError& error) {
    fault_ = error.what();
  }
}

void AllowedTokens::fill(std::span<uint32_t> words) {
  std::ranges::fill(words, kAll);
  if (constraint_) guard([&] { constraint_->fill_mask(words); });
  if (fault_) std::ranges::fill(words, kAll);
  if (!listed_) return;
  std::vector<uint32_t> listed(words.size());
  for (const TokenId token : *listed_) add_token(listed, token);
  for (size_t word = 0; word < words.size(); ++word) words[word] &= listed[word];
}

std::vector<TokenId> AllowedTokens::push(TokenId token) {
  std::optional<std::vector<TokenId>> forced = try_push(token);
  NIBBLE_CHECK(forced || fault_, "token {} is not allowed next", token);
  return forced ? std::move(*forced) : std::vector<TokenId>{};
}

std::optional<std::vector<TokenId>> AllowedTokens::try_push(TokenId token) {
  std::vector<TokenId> forced;
  if (!constraint_) return forced;
  bool may_come = false;
  guard([&] {
    may_come = constraint_->accept(token);
    if (may_come) forced = constraint_->forced_tokens();
    for (const TokenId next : forced)
      NIBBLE_CHECK(constraint_->accept(next), "forced token {} is not accepted by the constraint", next);
  });
  return may_come && !fault_ ? std::optional(std::move(forced)) : std::nullopt;
}

}  // namespace nibble
