// Finds what a grammar allows behind a text by Earley's parser over the bytes of the text, with a row for each place that something may
// return to (Earley, "An Efficient Context-Free Parsing Algorithm", CACM 1970).
//
// An item is a place in the grammar's program. Where it came from is a frame: the row in which a rule was called, so that all callers of
// one rule at one place share what follows. A rule that is called last in another, behind text, takes over its frame: a list that is
// written with recursion at its end takes no more room with each item. Rows, items and frames lie in arrays that only grow and are cut
// back to an earlier length, so that going on, going back and copying are cheap.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "grammar/program/grammar.h"

namespace nibble::grammar {

struct Item {
  uint32_t op, frame;
  uint32_t state;    // in front of text: of its terminal. Waiting for a rule: which.
  uint32_t counter;  // of characters, of list items (or which they were), or a Members::Place
  bool operator==(const Item&) const = default;
};

class Rows {
 public:
  // Ends with one row, of what the grammar's texts begin with. The grammar must outlive this.
  explicit Rows(Grammar& grammar);

  uint32_t last() const { return static_cast<uint32_t>(rows_.size()) - 1; }
  // True if the text may end here.
  bool is_complete(uint32_t row) const { return rows_[row].is_complete; }
  // The row's items that wait for text.
  uint32_t num_items(uint32_t row) const { return end_item(row) - rows_[row].first_item; }
  Item item(uint32_t row, uint32_t index) const { return items_[rows_[row].first_item + index]; }

  // Adds a row behind the last: what may follow `byte` in `row`. False, and nothing is added, if nothing may.
  bool advance(uint32_t row, uint8_t byte);
  // The same, for `item` as well, which is none of the row's.
  bool advance(uint32_t row, const Item& item, uint8_t byte);
  // Adds a row of what follows an item that has come to the end of its text.
  void add_behind(const Item& item);
  // True if `byte` may follow in `row`.
  bool allows(uint32_t row, uint8_t byte);
  // Removes all rows behind `row`.
  void cut_behind(uint32_t row);
  // Removes the row in front of the last, if nothing refers to it.
  void forget_before_last();

  // The item's next state after `byte`; false if there is none. `accepts`: its text may end there. `goes_on`: it need not.
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

  // These belong to the row that is being made.
  std::vector<Pending> pending_;
  std::vector<Item> marks_;  // what was followed already
  struct Slot {
    uint64_t row_made{0};  // empty if that is not this row
    Kind kind{};
    uint32_t place{0};
  };
  std::vector<Slot> slots_;  // of lists that are too long to search; made when first needed
  uint64_t num_rows_made_{0};
  std::vector<std::pair<uint32_t, uint32_t>>
      frame_of_rule_;  // by rule: row and frame; stale if the row is another
};

}  // namespace nibble::grammar
