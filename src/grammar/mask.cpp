// The walk over the vocabulary that finds the legal tokens: Matcher::fill_mask.
//
// While only one item waits for text, a step is one look-up in its automaton and no row is made: at each depth of the tree there is a
// state. Where the automaton's text may end, what comes behind it is worked out once for the whole walk, and a row is made only where a
// token really goes on there.
#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "grammar/matcher.h"

namespace nibble::grammar {
namespace {

void set_token(std::span<uint32_t> mask, uint32_t token) { mask[token / 32] |= 1u << (token % 32); }

// The states of one item by bytes since it began: of an automaton alone, whose steps are look-ups, or of any item.
class AutomatonPath {
 public:
  AutomatonPath(Automaton& automaton, const Item& item) : automaton_(automaton), item_(item) {
    states_[0] = item.state;
  }
  bool step(uint32_t depth, uint8_t byte) {
    return (states_[depth] = automaton_.next(states_[depth - 1], byte)) != Automaton::kDead;
  }
  // Where the item began its end is in its row already.
  bool accepts(uint32_t depth) const { return depth > 0 && automaton_.accepts(states_[depth]); }
  Item item(uint32_t depth) const { return {item_.op, item_.frame, states_[depth], item_.counter}; }

 private:
  Automaton& automaton_;
  const Item& item_;
  std::array<uint32_t, VocabularyTrie::kMaxTokenBytes + 1> states_;
};

class ItemPath {
 public:
  ItemPath(Rows& rows, const Item& item) : rows_(rows) { items_[0] = {item, false}; }
  bool step(uint32_t depth, uint8_t byte) {
    items_[depth].item = items_[depth - 1].item;
    const Rows::Stepped stepped = rows_.step(items_[depth].item, byte);
    items_[depth].accepts = stepped.accepts;
    return stepped.is_legal;
  }
  bool accepts(uint32_t depth) const { return items_[depth].accepts; }
  const Item& item(uint32_t depth) const { return items_[depth].item; }

 private:
  struct Place {
    Item item;
    bool accepts;
  };
  Rows& rows_;
  std::array<Place, VocabularyTrie::kMaxTokenBytes + 1> items_;
};

}  // namespace

class Matcher::Walk {
 public:
  using Nodes = std::span<const VocabularyTrie::Node>;

  Walk(Grammar& grammar, Rows& rows, std::span<uint32_t> mask)
      : grammar_(grammar), rows_(rows), mask_(mask) {}

  // `row` lies in front of the first byte of `nodes`, which are all children of one node.
  void from_row(uint32_t row, Nodes nodes) {
    if (rows_.num_items(row) == 1) {
      from_item(rows_.item(row, 0), nodes);
    } else {
      from_items(row, nodes);
    }
  }

  void from_item(const Item& item, Nodes nodes) {
    const Op& op = grammar_.ops[item.op];
    const bool is_automaton =
        op.kind == OpKind::kMatch && grammar_.terminals[op.a].kind == Terminal::Kind::kAutomaton;
    if (is_automaton && !grammar_.terminals[op.a].is_counted) {
      from_state(AutomatonPath(grammar_.automata[grammar_.terminals[op.a].index], item), nodes);
    } else {
      from_state(ItemPath(rows_, item), nodes);
    }
  }

 private:
  void set(const VocabularyTrie::Node& node) {
    if (node.token != VocabularyTrie::kNoToken) set_token(mask_, node.token);
  }
  static Nodes below(Nodes nodes, size_t at) { return nodes.subspan(at + 1, nodes[at].num_below); }

  template <typename Path>
  void from_state(Path path, Nodes nodes);
  void from_items(uint32_t row, Nodes nodes);

  Grammar& grammar_;
  Rows& rows_;
  std::span<uint32_t> mask_;
};

template <typename Path>
void Matcher::Walk::from_state(Path path, Nodes nodes) {
  if (nodes.empty()) return;
  const uint32_t depth_of_start = nodes[0].depth - 1u;
  // The row behind the item's text, if it does not depend on where that ended; made when it is first needed.
  const bool is_name = grammar_.ops[path.item(0).op].kind == OpKind::kMemberNames;
  const uint32_t last_row = rows_.last();
  std::array<int8_t, 256> goes_on_behind;  // by byte: 1, 0, or -1 where nobody asked
  bool has_row_behind = false;

  for (size_t at = 0; at < nodes.size();) {
    const VocabularyTrie::Node node = nodes[at];
    const uint32_t depth = node.depth - depth_of_start;
    const auto byte = static_cast<uint8_t>(node.byte);
    const bool is_legal = path.step(depth, byte);
    if (path.accepts(depth - 1)) [[unlikely]] {
      const Item from = path.item(depth - 1);
      if (is_name && has_row_behind) rows_.cut_behind(last_row);
      if (is_name || !has_row_behind) {
        rows_.add_behind(from);
        goes_on_behind.fill(-1);
        has_row_behind = true;
      }
      const uint32_t behind = last_row + 1;
      if (goes_on_behind[byte] < 0) goes_on_behind[byte] = rows_.allows(behind, byte);
      if (goes_on_behind[byte] != 0) {
        NIBBLE_CHECK(is_legal ? rows_.advance(behind, from, byte) : rows_.advance(behind, byte));
        set(node);
        from_row(rows_.last(), below(nodes, at));
        rows_.cut_behind(behind);
        at += node.num_below + 1u;
        continue;
      }
    }
    if (!is_legal) {
      at += node.num_below + 1u;
      continue;
    }
    set(node);
    ++at;
  }
  rows_.cut_behind(last_row);
}

void Matcher::Walk::from_items(uint32_t row, Nodes nodes) {
  for (size_t at = 0; at < nodes.size(); at += nodes[at].num_below + 1u) {
    const uint32_t last_row = rows_.last();
    if (!rows_.advance(row, static_cast<uint8_t>(nodes[at].byte))) continue;
    set(nodes[at]);
    from_row(rows_.last(), below(nodes, at));
    rows_.cut_behind(last_row);
  }
}

// Content tokens behind an item, as far as they can be told at once: by slice, those of at most so many characters are legal, and no
// others but of the slices `to_walk`, whose tokens are all to be tried, and `to_try`, of which that is left to the long ones.
struct Matcher::Content {
  std::array<uint32_t, kNumContentSlices> max_characters{};
  uint32_t to_walk{kAllContentSlices}, to_try{0};
};

Matcher::Content Matcher::content_behind(const Item& item) {
  Content content;
  const Op& op = grammar_->ops[item.op];
  if (op.kind != OpKind::kMatch || grammar_->terminals[op.a].kind != Terminal::Kind::kAutomaton)
    return content;
  const Terminal& terminal = grammar_->terminals[op.a];
  Automaton& automaton = grammar_->automata[terminal.index];
  const ContentRuns& runs = automaton.content_runs(item.state);
  const uint32_t limit =
      terminal.is_counted && terminal.max != kUnlimited ? terminal.max - item.counter : kUnlimited;
  std::optional<bool> is_left;  // whether content may come behind the item's text, where that can end
  const auto may_be_left = [&] {
    if (automaton.encoding() != Encoding::kUtf8) return false;  // a quote comes first
    if (!is_left) {
      const uint32_t row = rows_.last();
      rows_.add_behind(item);
      is_left = rows_.num_items(rows_.last()) > 0;
      rows_.cut_behind(row);
    }
    return *is_left;
  };
  for (uint32_t slice = 0; slice < kNumContentSlices; ++slice) {
    const uint32_t bit = 1u << slice, num = runs.num_characters[slice];
    const bool takes_all = num >= vocabulary_->most_characters(slice);
    if (num == 0 || (!takes_all && ((runs.ends_there & bit) == 0 || may_be_left()))) continue;
    uint32_t& max_characters = content.max_characters[slice];
    max_characters = std::min(limit, takes_all ? kUnlimited : num);
    if (terminal.has_pattern) {
      // Tokens that leave room for what is missing behind them are legal; of others it depends on what they are.
      const uint32_t missing = runs.num_missing[slice];
      max_characters = missing == ContentRuns::kNever || missing >= limit ? 0 : limit - missing;
      if (missing > 0 && max_characters < VocabularyTrie::kMaxMaskCharacters) continue;
      if (missing > 0 && max_characters < kMaxContentCharacters) content.to_try |= bit;
    }
    content.to_walk &= ~bit;
  }
  return content;
}

// Tokens that are too many characters to be told at once, one by one.
void Matcher::try_long_content(const Item& item, const Content& content, std::span<uint32_t> mask) {
  for (const VocabularyTrie::LongToken& token : vocabulary_->long_content()) {
    if ((content.to_try >> token.slice & 1) == 0 ||
        token.num_characters <= content.max_characters[token.slice])
      continue;
    Item at = item;
    const std::string_view bytes = vocabulary_->tokenizer().bytes(token.token);
    if (std::all_of(bytes.begin(), bytes.end(),
                    [&](char byte) { return rows_.step(at, static_cast<uint8_t>(byte)).is_legal; }))
      set_token(mask, static_cast<uint32_t>(token.token));
  }
}

void Matcher::fill_mask(std::span<uint32_t> mask) {
  NIBBLE_CHECK(mask.size() == vocabulary_->num_mask_words(), "{} {}", mask.size(),
               vocabulary_->num_mask_words());
  std::fill(mask.begin(), mask.end(), 0);
  const std::lock_guard lock(grammar_->mutex);
  grammar_->expressions.fuel().fill(kMaskFuel);
  Walk walk(*grammar_, rows_, mask);
  const uint32_t row = rows_.last();

  // What the items allow together is what each of them allows.
  std::vector<Item> others;
  for (uint32_t i = 0; i < rows_.num_items(row); ++i) {
    const Item item = rows_.item(row, i);
    const Content content = content_behind(item);
    uint32_t to_add = 0;
    for (uint32_t slice = 0; slice < kNumContentSlices; ++slice)
      to_add |= uint32_t{content.max_characters[slice] > 0} << slice;
    if (content.to_walk == kAllContentSlices && to_add == 0) {
      others.push_back(item);
      continue;
    }
    while (to_add != 0) {  // those with the same number of characters together
      const uint32_t max_characters = content.max_characters[static_cast<size_t>(std::countr_zero(to_add))];
      uint32_t slices = 0;
      for (uint32_t slice = 0; slice < kNumContentSlices; ++slice)
        if ((to_add >> slice & 1) && content.max_characters[slice] == max_characters) slices |= 1u << slice;
      vocabulary_->add_content(slices, max_characters, mask);
      to_add &= ~slices;
    }
    for (size_t slice = 0; slice < kNumContentSlices; ++slice)
      if (content.to_walk >> slice & 1) walk.from_item(item, vocabulary_->slice_nodes(slice));
    walk.from_item(item, vocabulary_->other_nodes());
    if (content.to_try != 0) try_long_content(item, content, mask);
  }
  if (others.size() == rows_.num_items(row)) {
    walk.from_row(row, vocabulary_->nodes());
  } else {
    for (const Item& item : others) walk.from_item(item, vocabulary_->nodes());
  }
}

}  // namespace nibble::grammar
