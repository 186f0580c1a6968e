#include "engine/allowed_tokens.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/token_mask.h"

namespace nibble {
namespace {

constexpr uint32_t kAll{~uint32_t{0}};

}  // namespace

AllowedTokens::AllowedTokens(std::shared_ptr<const std::vector<TokenId>> listed,
                             const grammar::Constraint* constraint)
    : listed_(std::move(listed)), constraint_(constraint ? constraint->fork() : nullptr) {}

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
  std::fill(words.begin(), words.end(), kAll);
  if (constraint_) guard([&] { constraint_->fill_mask(words); });
  if (fault_) std::fill(words.begin(), words.end(), kAll);
  if (!listed_) return;
  std::vector<uint32_t> listed(words.size());
  for (const TokenId token : *listed_) add_token(listed, token);
  for (size_t word = 0; word < words.size(); ++word) words[word] &= listed[word];
}

std::vector<TokenId> AllowedTokens::push(TokenId token) {
  std::vector<TokenId> forced;
  if (!constraint_) return forced;
  guard([&] {
    NIBBLE_CHECK(constraint_->accept(token), "token {} may not come next", token);
    forced = constraint_->forced_tokens();
    for (const TokenId next : forced)
      NIBBLE_CHECK(constraint_->accept(next), "token {} may not come next, and must", next);
  });
  if (fault_) forced.clear();
  return forced;
}

}  // namespace nibble
