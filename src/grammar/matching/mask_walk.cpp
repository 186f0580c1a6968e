#include "grammar/matching/mask_walk.h"

#include <array>

namespace nibble::grammar {
namespace {

// Before a subtree of at least this size is walked, a check finds whether all its tokens are legal. If so,
// the walk is not needed.
constexpr uint32_t kManyNodes{32};

MaskWalk::Nodes below(MaskWalk::Nodes nodes, size_t at) { return nodes.subspan(at + 1, nodes[at].num_below); }

// Both path classes keep an item's state after each byte of a path in the tree of tokens. AutomatonPath is
// for automata without counts, where a step is a look-up; ItemPath is for any item.
class AutomatonPath {
 public:
  AutomatonPath(Automaton& automaton, const Item& item) : automaton_(automaton), item_(item) {
    states_[0] = item.state;
  }
  bool step(uint32_t depth, uint8_t byte) {
    return (states_[depth] = automaton_.next(states_[depth - 1], byte)) != Automaton::kDead;
  }
  // Whether content of any kind and any length may follow.
  bool takes_content(uint32_t depth) const {
    return automaton_.content_runs(states_[depth]).num_characters.back() == kMaxContentCharacters;
  }
  // False at depth 0: if the text may end before the first byte, the parser's row already has the items that
  // may follow it.
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
  bool takes_content(uint32_t) const { return false; }
  bool accepts(uint32_t depth) const { return items_[depth].accepts; }
  const Item& item(uint32_t depth) const { return items_[depth].item; }

 private:
  struct ReadItem {
    Item item;
    bool accepts;
  };
  Rows& rows_;
  std::array<ReadItem, VocabularyTrie::kMaxTokenBytes + 1> items_;
};

}  // namespace

void MaskWalk::from_row(uint32_t row, Nodes nodes) {
  if (rows_.num_items(row) == 1) {
    from_item(rows_.item(row, 0), nodes);
  } else {
    from_items(row, nodes);
  }
}

void MaskWalk::from_item(const Item& item, Nodes nodes) {
  const Op& op = grammar_.ops[item.op];
  const bool is_automaton =
      op.kind == OpKind::kMatch && grammar_.terminals[op.a].kind == Terminal::Kind::kAutomaton;
  if (is_automaton && !grammar_.terminals[op.a].is_counted) {
    from_state(AutomatonPath(grammar_.automata[grammar_.terminals[op.a].index], item), nodes, nullptr);
  } else {
    from_state(ItemPath(rows_, item), nodes, nullptr);
  }
}

void MaskWalk::from_item(const Item& item, Nodes nodes, KeptMask& within) {
  from_state(AutomatonPath(grammar_.automata[grammar_.terminals[grammar_.ops[item.op].a].index], item), nodes,
             &within);
}

// Finds the bytes that may follow an item's text. The text can end at many depths of a walk. Computes the
// parser's row after such an end on first use. `is_same_everywhere`: the row is the same for all ends.
class Behind {
 public:
  Behind(Rows& rows, bool is_same_everywhere)
      : rows_(rows), before_(rows.last()), is_same_everywhere_(is_same_everywhere) {}
  ~Behind() { rows_.cut_behind(before_); }
  Behind(const Behind&) = delete;
  Behind& operator=(const Behind&) = delete;

  // Whether `byte` may follow the end of the item's text.
  bool allows(const Item& item, uint8_t byte) {
    if (has_row_ && !is_same_everywhere_) rows_.cut_behind(before_);
    if (!has_row_ || !is_same_everywhere_) {
      rows_.add_behind(item);
      allows_.fill(-1);
      has_row_ = true;
    }
    if (allows_[byte] < 0) allows_[byte] = rows_.allows(row(), byte);
    return allows_[byte] != 0;
  }
  uint32_t row() const { return before_ + 1; }

 private:
  Rows& rows_;
  uint32_t before_;
  bool is_same_everywhere_, has_row_{false};
  std::array<int8_t, 256> allows_;  // [byte]: 1, 0, or -1 if not computed yet
};

template <typename Path>
void MaskWalk::from_state(Path path, Nodes nodes, KeptMask* within) {
  if (nodes.empty()) return;
  const uint32_t depth_of_start = nodes[0].depth - 1u;
  // The text that may follow an item depends on the item's own text in two cases: member names, and list
  // items that must be unique. Neither is a kMatch.
  Behind behind(rows_, grammar_.ops[path.item(0).op].kind == OpKind::kMatch);
  const std::span<uint32_t> mask = within ? std::span(within->mask) : mask_;
  for (size_t at = 0; at < nodes.size();) {
    const VocabularyTrie::Node node = nodes[at];
    const uint32_t depth = node.depth - depth_of_start;
    const auto byte = static_cast<uint8_t>(node.byte);
    const bool is_legal = path.step(depth, byte);
    if (path.accepts(depth - 1) && within == nullptr) [[unlikely]] {
      const Item from = path.item(depth - 1);
      if (behind.allows(from, byte)) {
        NIBBLE_CHECK(is_legal ? rows_.advance(behind.row(), from, byte) : rows_.advance(behind.row(), byte));
        set(node, mask);
        from_row(rows_.last(), below(nodes, at));
        rows_.cut_behind(behind.row());
        at += node.num_below + 1u;
        continue;
      }
    }
    if (!is_legal) {
      at += node.num_below + 1u;
      continue;
    }
    set(node, mask);
    if (within != nullptr) {
      ++within->num_nodes;
      if (within->has_ends && node.num_below > 0 && path.accepts(depth))
        within->ends.push_back({&nodes[at], path.item(depth).state});
    }
    ++at;
    if (node.has_content_below && node.num_below >= kManyNodes && path.takes_content(depth)) {
      if (within != nullptr) within->num_nodes += node.num_below;
      for (const size_t end = at + node.num_below; at < end; ++at) set(nodes[at], mask);
    }
  }
}

void MaskWalk::from_ends(const Item& item, std::span<const KeptMask::End> ends) {
  Behind behind(rows_, true);
  for (const KeptMask::End& end : ends) {
    Item from = item;
    from.state = end.state;
    const Nodes nodes(end.node + 1, end.node->num_below);
    for (size_t at = 0; at < nodes.size(); at += nodes[at].num_below + 1u) {
      const auto byte = static_cast<uint8_t>(nodes[at].byte);
      if (!behind.allows(from, byte)) continue;
      NIBBLE_CHECK(rows_.advance(behind.row(), byte));
      set(nodes[at], mask_);
      from_row(rows_.last(), below(nodes, at));
      rows_.cut_behind(behind.row());
    }
  }
}

void MaskWalk::from_items(uint32_t row, Nodes nodes) {
  for (size_t at = 0; at < nodes.size(); at += nodes[at].num_below + 1u) {
    const uint32_t last_row = rows_.last();
    if (!rows_.advance(row, static_cast<uint8_t>(nodes[at].byte))) continue;
    set(nodes[at], mask_);
    from_row(rows_.last(), below(nodes, at));
    rows_.cut_behind(last_row);
  }
}

}  // namespace nibble::grammar
