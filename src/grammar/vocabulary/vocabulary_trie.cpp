#include "grammar/vocabulary/vocabulary_trie.h"

#include <algorithm>
#include <optional>

#include "core/tokens/token_mask.h"
#include "text/utf8.h"

namespace nibble::grammar {
namespace {

struct Content {
  uint32_t num_characters{0};
  size_t slice{0};
};

// Describes a token's bytes as content (content.h). Returns nullopt if they are not content or have more than
// kMaxContentCharacters characters.
std::optional<Content> content_of(std::string_view bytes) {
  if (well_formed_prefix(bytes) != bytes.size()) return std::nullopt;
  Content content;
  const bool has_blank = bytes.size() > 1 && bytes[0] == ' ';
  if (has_blank) {
    content.num_characters = 1;
    bytes.remove_prefix(1);
  }
  ContentKinds kinds = 0;
  while (!bytes.empty()) {
    const Character character = first_character(bytes);
    const ContentKinds kind = content_kinds(character.code_point, character.code_point);
    if (kind == 0) return std::nullopt;
    kinds |= kind;
    ++content.num_characters;
    bytes.remove_prefix(character.num_bytes);
  }
  if (content.num_characters > kMaxContentCharacters) return std::nullopt;
  const auto set = std::ranges::find_if(kContentSets, [&](ContentKinds all) { return (kinds & ~all) == 0; });
  content.slice = static_cast<size_t>(set - kContentSets.begin()) + (has_blank ? kNumContentSets : 0);
  return content;
}

}  // namespace

VocabularyTrie::VocabularyTrie(const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer), num_words_(mask_words(tokenizer.num_tokens())) {
  content_masks_.assign(kMaxMaskCharacters + 2, std::vector<uint32_t>(num_words_));
  for (Slice& slice : slices_) slice.mask.resize(num_words_);
  ordinary_mask_.resize(num_words_);
  std::vector<Entry> all;
  for (TokenId token = 0; token < tokenizer.num_tokens(); ++token) {
    const std::string_view bytes = tokenizer.bytes(token);
    if (bytes.empty() || bytes.size() > kMaxTokenBytes || tokenizer.is_special(token)) continue;
    all.push_back({bytes, token, content_of(bytes).has_value()});
    add_token(ordinary_mask_, token);
  }
  std::ranges::sort(all, [](const Entry& a, const Entry& b) { return a.bytes < b.bytes; });
  std::array<std::vector<Entry>, kNumContentSlices> of_slice;
  std::vector<Entry> others;
  for (const Entry& entry : all) {
    const std::optional<Content> content = content_of(entry.bytes);
    if (!content) {
      others.push_back(entry);
      continue;
    }
    of_slice[content->slice].push_back(entry);
    Slice& slice = slices_[content->slice];
    add_token(slice.mask, entry.token);
    slice.most_characters = std::max(slice.most_characters, content->num_characters);
    for (uint32_t most = std::min(content->num_characters, kMaxMaskCharacters + 1);
         most < content_masks_.size(); ++most)
      add_token(content_masks_[most], entry.token);
    if (content->num_characters > kMaxMaskCharacters)
      long_content_.push_back({entry.token, content->num_characters, content->slice});
  }
  nodes_ = tree_of(all);
  other_nodes_ = tree_of(others);
  for (size_t slice = 0; slice < kNumContentSlices; ++slice) slices_[slice].nodes = tree_of(of_slice[slice]);
}

std::vector<VocabularyTrie::Node> VocabularyTrie::tree_of(std::span<const Entry> sorted) {
  std::vector<Node> nodes;
  // A node on the path to the previous token. Its subtree is not complete yet.
  struct Open {
    size_t node;
    bool is_content, has_content_below{true};
  };
  std::vector<Open> path;
  std::string_view before;
  const auto leave = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      const auto [node, is_content, has_content_below] = path.back();
      nodes[node].num_below = static_cast<uint32_t>(nodes.size() - node - 1) & 0xFFFFFF;
      nodes[node].has_content_below = has_content_below;
      if (path.size() > 1) path[path.size() - 2].has_content_below &= is_content && has_content_below;
    }
  };
  for (const auto& [bytes, token, is_content] : sorted) {
    const size_t common = static_cast<size_t>(
        std::mismatch(bytes.begin(), bytes.end(), before.begin(), before.end()).first - bytes.begin());
    leave(common);
    for (size_t depth = common; depth < bytes.size(); ++depth) {
      path.push_back({nodes.size(), true});
      nodes.push_back({kNoToken, 0, static_cast<uint8_t>(bytes[depth]), 0, static_cast<uint8_t>(depth + 1)});
    }
    nodes.back().token = static_cast<uint32_t>(token) & kNoToken;
    path.back().is_content = is_content;
    before = bytes;
  }
  leave(0);
  return nodes;
}

void VocabularyTrie::add_content(uint32_t slices, uint32_t max_characters, std::span<uint32_t> mask) const {
  const bool is_all = max_characters >= kMaxContentCharacters;
  const std::vector<uint32_t>& content =
      content_masks_[is_all ? kMaxMaskCharacters + 1 : std::min(max_characters, kMaxMaskCharacters)];
  if (slices == kAllContentSlices) {
    for (size_t word = 0; word < num_words_; ++word) mask[word] |= content[word];
  } else {
    for (size_t slice = 0; slice < kNumContentSlices; ++slice)
      if (slices >> slice & 1)
        for (size_t word = 0; word < num_words_; ++word)
          mask[word] |= slices_[slice].mask[word] & content[word];
  }
  if (is_all || max_characters <= kMaxMaskCharacters) return;
  for (const LongToken& token : long_content_)
    if (token.num_characters <= max_characters && (slices >> token.slice & 1)) add_token(mask, token.token);
}

}  // namespace nibble::grammar
