#include "grammar/mask_walk.h"

#include <array>

namespace nibble::grammar {
namespace {

constexpr uint32_t kManyNodes{32};  // from here on it pays to ask whether all tokens below a node are legal

MaskWalk::Nodes below(MaskWalk::Nodes nodes, size_t at) { return nodes.subspan(at + 1, nodes[at].num_below); }

// The states of one item by bytes since it began: of an automaton alone, whose steps are look-ups, or of any item.
class AutomatonPath {
 public:
  AutomatonPath(Automaton& automaton, const Item& item) : automaton_(automaton), item_(item) {
    states_[0] = item.state;
  }
  bool step(uint32_t depth, uint8_t byte) {
    return (states_[depth] = automaton_.next(states_[depth - 1], byte)) != Automaton::kDead;
  }
  // Whether any content may follow.
  bool takes_content(uint32_t depth) const {
    return automaton_.content_runs(states_[depth]).num_characters.back() == kMaxContentCharacters;
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
  bool takes_content(uint32_t) const { return false; }
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
    from_state(AutomatonPath(grammar_.automata[grammar_.terminals[op.a].index], item), nodes);
  } else {
    from_state(ItemPath(rows_, item), nodes);
  }
}

template <typename Path>
void MaskWalk::from_state(Path path, Nodes nodes) {
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
      has_reached_end_ = true;
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
    if (node.has_content_below && node.num_below >= kManyNodes && path.takes_content(depth))
      for (const size_t end = at + node.num_below; at < end; ++at) set(nodes[at]);
    ++num_nodes_;
  }
  rows_.cut_behind(last_row);
}

void MaskWalk::from_items(uint32_t row, Nodes nodes) {
  for (size_t at = 0; at < nodes.size(); at += nodes[at].num_below + 1u) {
    const uint32_t last_row = rows_.last();
    if (!rows_.advance(row, static_cast<uint8_t>(nodes[at].byte))) continue;
    set(nodes[at]);
    from_row(rows_.last(), below(nodes, at));
    rows_.cut_behind(last_row);
  }
}

}  // namespace nibble::grammar
