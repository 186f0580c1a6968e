// Earley's parser over bytes (Earley, "An Efficient Context-Free Parsing Algorithm", CACM 1970). A row is an
// Earley set: all items that may be reached by the text up to some byte. An item is a position in the
// grammar's program. Its frame says in which row its rule was called; the callers wait as items of that row,
// and all callers of a rule in one row share a frame. A row is kept only if a rule was called in it or a
// token ended there. A tail call after text reuses the caller's frame, so a right-recursive list takes no
// more memory per item. All rows share a few flat arrays that change only near their ends. So going back is a
// truncation, and a copy of Rows copies only a few arrays.
#pragma once

#include <cstdint>
#include <vector>

#include "grammar/program/grammar.h"

namespace nibble::grammar {

struct Item {
  uint32_t op, frame;
  // State of the terminal's automaton or trie; for an item that waits, the rule that it has called.
  uint32_t state;
  // Depends on the operation: the number of characters or list items so far; one bit for each text of
  // List::texts, set if that text has occurred; or Members::Progress.
  uint32_t counter;
  bool operator==(const Item&) const = default;
};

class Rows {
 public:
  // Starts with the row for the start of a text. The grammar must outlive this object.
  explicit Rows(Grammar& grammar);

  uint32_t last() const { return static_cast<uint32_t>(rows_.size()) - 1; }
  bool is_complete(uint32_t row) const { return rows_[row].is_complete; }
  // Returns the number of the row's items that expect a byte. All other items wait for the end of a rule.
  uint32_t num_items(uint32_t row) const { return end_item(row) - rows_[row].first_item; }
  Item item(uint32_t row, uint32_t index) const { return items_[rows_[row].first_item + index]; }

  // Adds the row after `byte` in `row`. If the byte is illegal, returns false and adds nothing.
  bool advance(uint32_t row, uint8_t byte);
  // Like advance() above, but the byte may also continue `item`, an item that is not in the row.
  bool advance(uint32_t row, const Item& item, uint8_t byte);
  // Adds a row with the items that may follow `item`. The item's text must be complete.
  void add_behind(const Item& item);
  bool allows(uint32_t row, uint8_t byte);
  void cut_behind(uint32_t row);
  // Removes the row before the last, unless items in it wait for the end of a rule.
  void forget_before_last();

  // Advances the item by `byte`. If `is_legal`, its text may now end (`accepts`) or continue (`goes_on`).
  struct Stepped {
    bool is_legal{false}, accepts{false}, goes_on{false};
  };
  Stepped step(Item& item, uint8_t byte);

 private:
  struct Row {
    uint32_t first_item, first_waiting, first_frame;
    bool is_complete;
  };
  struct Frame {
    uint32_t row, rule;
  };
  struct Pending {
    uint32_t op, frame, counter;
  };

  uint32_t end_item(uint32_t row) const {
    return row + 1 < rows_.size() ? rows_[row + 1].first_item : static_cast<uint32_t>(items_.size());
  }
  uint32_t end_waiting(uint32_t row) const {
    return row + 1 < rows_.size() ? rows_[row + 1].first_waiting : static_cast<uint32_t>(waiting_.size());
  }

  void begin_row();
  bool finish_row();
  void step_into_row(Item item, uint8_t byte);
  void follow_behind(const Item& item);
  void close();
  void follow(const Pending& place);
  void call(const Pending& place, uint32_t rule, bool is_last);
  void complete(uint32_t frame);
  void resume(const Item& caller);
  void next_of_list(const Pending& place);
  void next_member(const Pending& place);
  void member_names(const Pending& place);
  enum class Kind : uint32_t { kItem, kWaiting, kMark };
  bool add(Kind kind, std::vector<Item>& to, uint32_t first, const Item& item);
  bool find_slot(Kind kind, const Item& item, const std::vector<Item>& list, uint32_t place);
  bool mark(const Item& item) { return add(Kind::kMark, marks_, 0, item); }
  Stepped step_counted(const Terminal& terminal, Item& item, uint8_t byte);
  Stepped step_name(const Op& op, Item& item, uint8_t byte);
  Stepped step_different(const Op& op, Item& item, uint8_t byte);

  Grammar* grammar_;
  std::vector<Item> items_, waiting_;
  std::vector<Row> rows_;
  std::vector<Frame> frames_;

  // Members for the row under construction:
  std::vector<Pending> pending_;
  std::vector<Item> marks_;  // operations already followed, stored as items, so that none is followed twice
  struct Slot {
    uint64_t row_made{0};  // the slot is free unless this equals num_rows_made_
    Kind kind{};
    uint32_t place{0};
  };
  std::vector<Slot> slots_;  // hash table of lists too long to search; allocated on first use
  uint64_t num_rows_made_{0};
  // [rule]: row and frame of the rule's last call; valid only if that row is the last one
  std::vector<std::pair<uint32_t, uint32_t>> frame_of_rule_;
};

}  // namespace nibble::grammar
