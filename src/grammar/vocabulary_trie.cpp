#include "grammar/vocabulary_trie.h"

#include <algorithm>
#include <optional>

#include "text/utf8.h"

namespace nibble::grammar {
namespace {

void set_bit(std::span<uint32_t> mask, TokenId token) {
  mask[static_cast<uint32_t>(token) / 32] |= 1u << (static_cast<uint32_t>(token) % 32);
}

// The number of characters; nothing if it is not content.
std::optional<uint32_t> content_characters(std::string_view bytes) {
  if (well_formed_prefix(bytes) != bytes.size()) return std::nullopt;
  uint32_t num = 0;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7F) return std::nullopt;
    num += (byte & 0xC0) != 0x80;
  }
  return num;
}

}  // namespace

VocabularyTrie::VocabularyTrie(const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer), num_words_((static_cast<size_t>(tokenizer.num_tokens()) + 31) / 32) {
  content_masks_.assign(kMaxMaskCharacters + 2, std::vector<uint32_t>(num_words_));
  std::vector<Entry> all, others;
  for (TokenId token = 0; token < tokenizer.num_tokens(); ++token) {
    const std::string_view bytes = tokenizer.bytes(token);
    if (bytes.empty() || bytes.size() > kMaxTokenBytes || tokenizer.is_special(token)) continue;
    all.push_back({bytes, token});
    const std::optional<uint32_t> num_characters = content_characters(bytes);
    if (!num_characters) {
      others.push_back({bytes, token});
      continue;
    }
    for (uint32_t most = std::min(*num_characters, kMaxMaskCharacters + 1); most < content_masks_.size();
         ++most)
      set_bit(content_masks_[most], token);
    if (*num_characters > kMaxMaskCharacters) long_content_.push_back({token, *num_characters});
  }
  const auto by_bytes = [](const Entry& a, const Entry& b) { return a.bytes < b.bytes; };
  std::sort(all.begin(), all.end(), by_bytes);
  std::sort(others.begin(), others.end(), by_bytes);
  nodes_ = tree_of(all);
  other_nodes_ = tree_of(others);
}

std::vector<VocabularyTrie::Node> VocabularyTrie::tree_of(std::span<const Entry> sorted) {
  std::vector<Node> nodes;
  std::vector<size_t> path;  // the nodes of the token before, by depth
  std::string_view before;
  const auto leave = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes[path.back()].num_below = static_cast<uint32_t>(nodes.size() - path.back() - 1) & 0xFFFFFF;
  };
  for (const auto& [bytes, token] : sorted) {
    const size_t common = static_cast<size_t>(
        std::mismatch(bytes.begin(), bytes.end(), before.begin(), before.end()).first - bytes.begin());
    leave(common);
    for (size_t depth = common; depth < bytes.size(); ++depth) {
      path.push_back(nodes.size());
      nodes.push_back({kNoToken, static_cast<uint8_t>(bytes[depth]), 0, static_cast<uint8_t>(depth + 1)});
    }
    nodes.back().token = static_cast<uint32_t>(token) & 0xFFFFFF;
    before = bytes;
  }
  leave(0);
  return nodes;
}

void VocabularyTrie::add_content(uint32_t max_characters, std::span<uint32_t> mask) const {
  const bool is_all = max_characters > kMaxTokenBytes;
  const std::vector<uint32_t>& content =
      content_masks_[is_all ? kMaxMaskCharacters + 1 : std::min(max_characters, kMaxMaskCharacters)];
  for (size_t word = 0; word < num_words_; ++word) mask[word] |= content[word];
  if (is_all || max_characters <= kMaxMaskCharacters) return;
  for (const LongToken& token : long_content_)
    if (token.num_characters <= max_characters) set_bit(mask, token.token);
}

}  // namespace nibble::grammar
