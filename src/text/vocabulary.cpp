#include "text/vocabulary.h"

#include <bit>
#include <cstring>

#include "core/errors/check.h"
#include "core/numbers/random.h"

namespace nibble {
namespace {

// Loads at most 8 bytes into a word; the rest of the word is zero.
uint64_t load(const char* bytes, size_t num_bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, num_bytes);
  return word;
}

// Hashes a piece. Most pieces skip the loop: their median length in English is 4 bytes.
uint64_t hash(std::string_view bytes) {
  uint64_t state = bytes.size();
  const char* at = bytes.data();
  size_t rest = bytes.size();
  for (; rest > 8; at += 8, rest -= 8) state = mix64(state ^ load(at, 8));
  return mix64(state ^ load(at, rest));
}

}  // namespace

Vocabulary::Vocabulary(size_t max_text_tokens) : slots_(std::bit_ceil(2 * max_text_tokens + 1)) {}

bool Vocabulary::take(TokenId id, std::string_view bytes, Kind kind) {
  NIBBLE_CHECK(id >= 0 && id <= kMaxId && !bytes.empty(), "id {} of {} bytes", id, bytes.size());
  const auto index = static_cast<size_t>(id);
  if (index >= entries_.size()) entries_.resize(index + 1);
  if (entries_[index].range.num_bytes != 0) return false;
  entries_[index] = {{static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(bytes.size())}, kind};
  bytes_ += bytes;
  NIBBLE_CHECK(bytes_.size() <= UINT32_MAX, "{} bytes of tokens", bytes_.size());
  return true;
}

bool Vocabulary::add(TokenId id, std::string_view bytes) {
  if (find(bytes) || !take(id, bytes, Kind::kText)) return false;
  ++num_text_tokens_;
  NIBBLE_CHECK(2 * num_text_tokens_ <= slots_.size(), "{} tokens", num_text_tokens_);
  const uint64_t key = hash(bytes);
  size_t free = key & (slots_.size() - 1);
  while (slots_[free].id >= 0) free = (free + 1) & (slots_.size() - 1);
  slots_[free] = {static_cast<uint32_t>(key >> 32), id, entries_[static_cast<size_t>(id)].range};
  return true;
}

bool Vocabulary::add_special(TokenId id, std::string_view name) { return take(id, name, Kind::kSpecial); }

bool Vocabulary::add_added(TokenId id, std::string_view text) { return take(id, text, Kind::kAdded); }

std::optional<TokenId> Vocabulary::find(std::string_view bytes) const {
  const uint64_t key = hash(bytes);
  for (size_t probe = key & (slots_.size() - 1);; probe = (probe + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[probe];
    if (slot.id < 0) return std::nullopt;
    if (slot.tag == static_cast<uint32_t>(key >> 32) && at(slot.range) == bytes) return slot.id;
  }
}

std::string_view Vocabulary::bytes(TokenId id) const {
  if (id < 0 || id >= num_ids()) return {};
  return at(entries_[static_cast<size_t>(id)].range);
}

bool Vocabulary::is_special(TokenId id) const { return is(id, Kind::kSpecial); }

bool Vocabulary::is_added(TokenId id) const { return is(id, Kind::kAdded); }

bool Vocabulary::is(TokenId id, Kind kind) const {
  return id >= 0 && id < num_ids() && entries_[static_cast<size_t>(id)].kind == kind;
}

}  // namespace nibble
