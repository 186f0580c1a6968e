#include "grammar/matching/matcher.h"

namespace nibble::grammar {

Matcher::Matcher(std::shared_ptr<Grammar> grammar, const VocabularyTrie& vocabulary)
    : grammar_(std::move(grammar)), vocabulary_(&vocabulary), rows_([&]() -> Rows {
        const std::lock_guard lock(grammar_->mutex);
        grammar_->expressions.fuel().fill(kMaskFuel);
        return Rows(*grammar_);
      }()) {}

bool Matcher::accept(TokenId token) {
  const Tokenizer& tokenizer = vocabulary_->tokenizer();
  const std::string_view bytes = tokenizer.bytes(token);
  if (bytes.empty() || bytes.size() > VocabularyTrie::kMaxTokenBytes || tokenizer.is_special(token))
    return false;
  return accept(bytes, token);
}

bool Matcher::accept(std::string_view bytes) { return accept(bytes, kNoTokenId); }

bool Matcher::accept(std::string_view bytes, TokenId token) {
  const std::lock_guard lock(grammar_->mutex);
  grammar_->expressions.fuel().fill(kMaskFuel);
  const uint32_t row = rows_.last();
  if (!advance(bytes)) return false;
  steps_.push_back({row, static_cast<uint32_t>(bytes.size()), token});
  return true;
}

// Advances by `bytes`. Of the new rows (Earley sets), keeps only the last one and those that hold a call of a
// rule that has not ended.
bool Matcher::advance(std::string_view bytes) {
  const uint32_t begin = rows_.last();
  for (const char byte : bytes) {
    const uint32_t row = rows_.last();
    if (!rows_.advance(row, static_cast<uint8_t>(byte))) {
      rows_.cut_behind(begin);
      return false;
    }
    if (row != begin) rows_.forget_before_last();
  }
  return true;
}

bool Matcher::is_finished() {
  if (!is_complete()) return false;
  const std::lock_guard lock(grammar_->mutex);
  for (uint32_t byte = 0; byte < 256; ++byte)
    if (rows_.allows(rows_.last(), static_cast<uint8_t>(byte))) return false;
  return true;
}

void Matcher::rollback(size_t num_steps) {
  NIBBLE_CHECK(num_steps <= steps_.size(), "{} of {}", num_steps, steps_.size());
  if (num_steps == steps_.size()) return;
  rows_.cut_behind(steps_[num_steps].row);
  steps_.resize(num_steps);
}

}  // namespace nibble::grammar
