#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "grammar/matching/mask_walk.h"
#include "grammar/matching/matcher.h"

namespace nibble::grammar {
namespace {

// A mask is kept if its walk found at least 1 / kShareOfNodes of the vocabulary's nodes legal.
constexpr size_t kShareOfNodes{128};
// Maximum number of kept masks per grammar (25 kB each), and of ends in a kept mask (KeptMask::End, 16 bytes
// each).
constexpr size_t kMaxMasks{128};
constexpr size_t kMaxEnds{4'096};

// Whether the text stays within the terminal's limits on the number of characters, whichever token follows.
bool is_any_length(const Terminal& terminal, uint32_t num_characters) {
  const bool has_room =
      terminal.max == kUnlimited || terminal.max - num_characters >= VocabularyTrie::kMaxTokenBytes;
  return !terminal.is_counted || (!terminal.has_pattern && num_characters >= terminal.min && has_room);
}

}  // namespace

// Content tokens (plain text, vocabulary/content.h) that may follow an item, by slice (tokens with the same
// kinds of characters). If a slice has its bit in to_walk, each of its tokens must be tried. Otherwise tokens
// of up to max_characters characters are legal; longer tokens must be tried (bit in to_try) or are illegal.
struct Matcher::Content {
  std::array<uint32_t, kNumContentSlices> max_characters{};
  uint32_t to_walk{kAllContentSlices}, to_try{0};

  uint32_t slices_to_add() const {
    uint32_t slices = 0;
    for (uint32_t slice = 0; slice < kNumContentSlices; ++slice)
      slices |= uint32_t{max_characters[slice] > 0} << slice;
    return slices;
  }
};

Matcher::Content Matcher::content_behind(const Item& item) {
  Content content;
  const Op& op = grammar_->ops[item.op];
  if (op.kind != OpKind::kMatch || grammar_->terminals[op.a].kind != Terminal::Kind::kAutomaton)
    return content;
  const Terminal& terminal = grammar_->terminals[op.a];
  Automaton& automaton = grammar_->automata[terminal.index];
  // A token that begins with a space is legal if the space may come next and the rest of the token may come
  // after the space.
  const ContentRuns& at_once = automaton.content_runs(item.state);
  const ContentRuns& behind_blank = automaton.content_runs(automaton.next(item.state, ' '));
  const uint32_t limit =
      terminal.is_counted && terminal.max != kUnlimited ? terminal.max - item.counter : kUnlimited;
  std::optional<bool> may_go_on;
  // Whether the item's text may end here and other text follow. A JSON string ends only at its quote.
  const auto may_leave = [&] {
    if (has_quotes(automaton.encoding())) return false;
    if (!may_go_on) may_go_on = may_go_on_behind(item);
    return *may_go_on;
  };
  for (uint32_t slice = 0; slice < kNumContentSlices; ++slice) {
    const bool has_blank = begins_with_blank(slice);
    const ContentRuns& runs = has_blank ? behind_blank : at_once;
    const size_t set = set_of(slice);
    if (runs.num_characters[set] == 0) continue;
    const uint32_t bit = 1u << slice, num = runs.num_characters[set] + uint32_t{has_blank};
    const bool takes_all = num >= vocabulary_->most_characters(slice);
    if (!takes_all && ((runs.ends_there >> set & 1) == 0 || may_leave())) continue;
    uint32_t& max_characters = content.max_characters[slice];
    max_characters = std::min(limit, takes_all ? kUnlimited : num);
    if (terminal.has_pattern) {
      // After a token, the text may need up to `missing` more characters before it can end. Tokens that leave
      // room for these characters within the limit are legal. Longer tokens must be tried.
      const uint32_t missing = runs.num_missing[set];
      max_characters = missing == ContentRuns::kNever || missing >= limit ? 0 : limit - missing;
      if (missing > 0 && max_characters < VocabularyTrie::kMaxMaskCharacters) continue;
      if (missing > 0 && max_characters < kMaxContentCharacters) content.to_try |= bit;
    }
    content.to_walk &= ~bit;
  }
  return content;
}

// Tries, one by one, the tokens in the slices of `to_try` that are longer than the slice's max_characters.
void Matcher::try_long_content(const Item& item, const Content& content, std::span<uint32_t> mask) {
  for (const VocabularyTrie::LongToken& token : vocabulary_->long_content()) {
    if ((content.to_try >> token.slice & 1) == 0 ||
        token.num_characters <= content.max_characters[token.slice])
      continue;
    Item at = item;
    const std::string_view bytes = vocabulary_->tokenizer().bytes(token.token);
    if (std::ranges::all_of(bytes,
                            [&](char byte) { return rows_.step(at, static_cast<uint8_t>(byte)).is_legal; }))
      add_token(mask, token.token);
  }
}

bool Matcher::may_go_on_behind(const Item& item) {
  const uint32_t row = rows_.last();
  rows_.add_behind(item);
  const bool may = rows_.num_items(rows_.last()) > 0;
  rows_.cut_behind(row);
  return may;
}

// Sets the bits of the tokens that may follow the item.
void Matcher::add_item(const Item& item, std::span<uint32_t> mask) {
  MaskWalk walk(*grammar_, rows_, mask);
  const Op& op = grammar_->ops[item.op];
  const bool is_plain = op.kind == OpKind::kMatch &&
                        grammar_->terminals[op.a].kind == Terminal::Kind::kAutomaton &&
                        is_any_length(grammar_->terminals[op.a], item.counter);
  const std::tuple key{vocabulary_, item.op, item.state, is_plain && may_go_on_behind(item)};
  if (const auto known = grammar_->masks.find(key); is_plain && known != grammar_->masks.end()) {
    for (size_t word = 0; word < mask.size(); ++word) mask[word] |= known->second.mask[word];
    return walk.from_ends(item, known->second.ends);
  }
  const Content content = content_behind(item);
  const uint32_t to_add = content.slices_to_add();
  const bool walks_all = to_add == 0 && content.to_walk == kAllContentSlices;
  if (!is_plain) {
    if (walks_all) return walk.from_item(item, vocabulary_->nodes());
    add_content(content, to_add, mask);
    for (size_t slice = 0; slice < kNumContentSlices; ++slice)
      if (content.to_walk >> slice & 1) walk.from_item(item, vocabulary_->slice_nodes(slice));
    walk.from_item(item, vocabulary_->other_nodes());
    if (content.to_try != 0) try_long_content(item, content, mask);
    return;
  }
  // No character limit matters here, so the result depends only on the item's state. Keep it if the walk
  // found many legal nodes.
  KeptMask within{.mask = std::vector<uint32_t>(mask.size()), .has_ends = std::get<bool>(key)};
  if (walks_all) {
    walk.from_item(item, vocabulary_->nodes(), within);
  } else {
    add_content(content, to_add, within.mask);
    for (size_t slice = 0; slice < kNumContentSlices; ++slice)
      if (content.to_walk >> slice & 1) walk.from_item(item, vocabulary_->slice_nodes(slice), within);
    walk.from_item(item, vocabulary_->other_nodes(), within);
  }
  for (size_t word = 0; word < mask.size(); ++word) mask[word] |= within.mask[word];
  walk.from_ends(item, within.ends);
  if (within.num_nodes * kShareOfNodes < vocabulary_->nodes().size() || within.ends.size() > kMaxEnds) return;
  if (grammar_->masks.size() == kMaxMasks) grammar_->masks.clear();
  grammar_->masks.emplace(key, std::move(within));
}

// Sets the bits of the content tokens of `slices`, for all slices with the same max_characters at once.
void Matcher::add_content(const Content& content, uint32_t slices, std::span<uint32_t> mask) const {
  while (slices != 0) {
    const uint32_t max_characters = content.max_characters[static_cast<size_t>(std::countr_zero(slices))];
    uint32_t same = 0;
    for (uint32_t slice = 0; slice < kNumContentSlices; ++slice)
      if ((slices >> slice & 1) && content.max_characters[slice] == max_characters) same |= 1u << slice;
    vocabulary_->add_content(same, max_characters, mask);
    slices &= ~same;
  }
}

void Matcher::fill_mask(std::span<uint32_t> mask) {
  NIBBLE_CHECK(mask.size() == vocabulary_->num_mask_words(), "{} {}", mask.size(),
               vocabulary_->num_mask_words());
  std::ranges::fill(mask, 0);
  const std::lock_guard lock(grammar_->mutex);
  grammar_->expressions.fuel().fill(kMaskFuel);
  const uint32_t row = rows_.last();
  for (uint32_t i = 0; i < rows_.num_items(row); ++i) add_item(rows_.item(row, i), mask);
}

}  // namespace nibble::grammar
