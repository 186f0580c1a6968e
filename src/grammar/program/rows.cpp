#include "grammar/program/rows.h"

#include <algorithm>

#include "grammar/program/members.h"

namespace nibble::grammar {

Rows::Rows(Grammar& grammar) : grammar_(&grammar), frame_of_rule_(grammar.rules.size(), {kUnlimited, 0}) {
  frames_.push_back({0, 0});  // frame 0: the rule of the whole text, which has no caller
  begin_row();
  pending_.push_back({grammar.rules[0].entry, 0, 0});
  close();
}

void Rows::begin_row() {
  const size_t bytes = (items_.size() + waiting_.size()) * sizeof(Item) + rows_.size() * sizeof(Row) +
                       frames_.size() * sizeof(Frame);
  if (bytes > kMaxArenaBytes)
    throw InputError("checking the text against its grammar needs more than {} MiB", kMaxArenaBytes >> 20);
  rows_.push_back({to_index(items_.size()), to_index(waiting_.size()), to_index(frames_.size()), false});
  marks_.clear();
  pending_.clear();
  ++num_rows_made_;
}

// Completes the new row. If no byte may follow and the text can't end here, removes it and returns false.
bool Rows::finish_row() {
  close();
  if (num_items(last()) > 0 || rows_.back().is_complete) return true;
  cut_behind(last() - 1);
  return false;
}

bool Rows::advance(uint32_t row, uint8_t byte) {
  const uint32_t begin = rows_[row].first_item, end = end_item(row);
  begin_row();
  for (uint32_t i = begin; i < end; ++i) step_into_row(items_[i], byte);
  return finish_row();
}

bool Rows::advance(uint32_t row, const Item& item, uint8_t byte) {
  const uint32_t begin = rows_[row].first_item, end = end_item(row);
  begin_row();
  step_into_row(item, byte);
  for (uint32_t i = begin; i < end; ++i) step_into_row(items_[i], byte);
  return finish_row();
}

void Rows::add_behind(const Item& item) {
  begin_row();
  follow_behind(item);
  close();
}

void Rows::step_into_row(Item item, uint8_t byte) {
  const Stepped stepped = step(item, byte);
  if (!stepped.is_legal) return;
  if (stepped.goes_on) add(Kind::kItem, items_, rows_.back().first_item, item);
  if (stepped.accepts) follow_behind(item);
}

void Rows::follow_behind(const Item& item) {
  const Op& op = grammar_->ops[item.op];
  if (op.kind == OpKind::kMemberNames) {
    const Members& members = grammar_->members[op.a];
    Members::Progress progress = Members::Progress::of(item.counter);
    progress.position = members.positions[grammar_->tries[members.names].first_text(item.state)];
    pending_.push_back({members.value_op, item.frame, progress.counter()});
  } else if (op.kind == OpKind::kItem) {
    const uint32_t text = grammar_->tries[grammar_->lists[op.a].texts].first_text(item.state);
    pending_.push_back({op.next, item.frame, item.counter | uint32_t{1} << text});
  } else {
    pending_.push_back({op.next, item.frame, op.keeps_counter ? item.counter : 0});
  }
}

bool Rows::allows(uint32_t row, uint8_t byte) {
  for (uint32_t i = rows_[row].first_item; i < end_item(row); ++i) {
    Item item = items_[i];
    if (step(item, byte).is_legal) return true;
  }
  return false;
}

void Rows::cut_behind(uint32_t row) {
  if (row + 1 >= rows_.size()) return;
  items_.resize(rows_[row + 1].first_item);
  waiting_.resize(rows_[row + 1].first_waiting);
  frames_.resize(rows_[row + 1].first_frame);
  rows_.resize(row + 1);
}

// Removes the row before the last, unless items in it wait for the end of a rule. The last row then takes the
// removed row's index.
void Rows::forget_before_last() {
  const uint32_t row = last() - 1;
  if (rows_[row].first_waiting != rows_[row + 1].first_waiting) return;
  items_.erase(items_.begin() + rows_[row].first_item, items_.begin() + rows_[row + 1].first_item);
  rows_[row].is_complete = rows_[row + 1].is_complete;
  rows_.pop_back();
  for (size_t frame = rows_[row].first_frame; frame < frames_.size(); ++frame) frames_[frame].row = row;
}

// Appends `item` to `to`. Returns false if `to` already contains it at index `first` or later. Fewer than
// kFew items are searched one by one, more are looked up in the hash table.
bool Rows::add(Kind kind, std::vector<Item>& to, uint32_t first, const Item& item) {
  constexpr size_t kFew{12};
  grammar_->expressions.fuel().spend();
  const size_t num = to.size() - first;
  if (num < kFew) {
    if (std::find(to.begin() + first, to.end(), item) != to.end()) return false;
  } else {
    if (num == kFew)
      for (size_t i = first; i < to.size(); ++i) find_slot(kind, to[i], to, to_index(i));
    if (!find_slot(kind, item, to, to_index(to.size()))) return false;
  }
  if (num >= kMaxItems)
    throw InputError(
        "the grammar is too ambiguous: there are more than {} ways to continue at one point of the text",
        kMaxItems);
  to.push_back(item);
  return true;
}

// Enters `item`, at index `place` of `list`, into the hash table. Returns false if the table already holds an
// equal item of the same kind.
bool Rows::find_slot(Kind kind, const Item& item, const std::vector<Item>& list, uint32_t place) {
  constexpr size_t kNumSlots{8192};
  static_assert(kNumSlots >= 3 * (kMaxItems + 1));
  if (slots_.empty()) slots_.resize(kNumSlots);
  uint64_t hash = static_cast<uint64_t>(kind);
  for (const uint32_t part : {item.op, item.frame, item.state, item.counter})
    hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
  for (size_t slot = hash >> 32 & (kNumSlots - 1);; slot = (slot + 1) & (kNumSlots - 1)) {
    Slot& at = slots_[slot];
    if (at.row_made != num_rows_made_) {
      at = {num_rows_made_, kind, place};
      return true;
    }
    if (at.kind == kind && list[at.place] == item) return false;
  }
}

void Rows::close() {
  while (!pending_.empty()) {
    const Pending place = pending_.back();
    pending_.pop_back();
    follow(place);
  }
}

void Rows::follow(const Pending& place) {
  const Op& op = grammar_->ops[place.op];
  const uint32_t first_item = rows_.back().first_item;
  switch (op.kind) {
    case OpKind::kMatch: {
      const Terminal& terminal = grammar_->terminals[op.a];
      const uint32_t start = terminal.kind == Terminal::Kind::kAutomaton ? Automaton::kStart : Trie::kRoot;
      if (!add(Kind::kItem, items_, first_item, {place.op, place.frame, start, place.counter})) return;
      const bool accepts = terminal.kind == Terminal::Kind::kAutomaton
                               ? grammar_->automata[terminal.index].accepts(start)
                               : grammar_->tries[terminal.index].accepts(start);
      if (accepts) pending_.push_back({op.next, place.frame, op.keeps_counter ? place.counter : 0});
      return;
    }
    case OpKind::kCall:
      // A tail call reuses its caller's frame. Only left recursion (within one row) needs a new frame.
      return call(place, op.a,
                  grammar_->ops[op.next].kind == OpKind::kReturn && frames_[place.frame].row != last());
    case OpKind::kFork:
      if (!mark({place.op, place.frame, 0, place.counter})) return;
      for (uint32_t i = 0; i < op.b; ++i)
        pending_.push_back({grammar_->targets[op.a + i], place.frame, place.counter});
      return;
    case OpKind::kReturn:
      if (mark({place.op, place.frame, 0, 0})) complete(place.frame);
      return;
    case OpKind::kNext:
      return next_of_list(place);
    case OpKind::kItem: {
      const List& list = grammar_->lists[op.a];
      if (list.are_different()) {
        add(Kind::kItem, items_, first_item, {place.op, place.frame, Trie::kRoot, place.counter});
      } else if (const uint32_t rule = list.rule(place.counter); rule != kUnlimited) {
        call(place, rule, false);
      }
      return;
    }
    case OpKind::kMembersNext:
      return next_member(place);
    case OpKind::kMemberNames:
      return member_names(place);
    case OpKind::kMemberValue: {
      const Members& members = grammar_->members[op.a];
      const auto at = Members::Progress::of(place.counter);
      return call(place,
                  at.position < members.num_declared()
                      ? members.values[at.position]
                      : members.undeclared[undeclared_kind(members, at)].value,
                  false);
    }
  }
}

void Rows::call(const Pending& place, uint32_t rule, bool is_last) {
  const uint32_t entry = grammar_->rules[rule].entry;
  if (is_last) {
    if (mark({place.op, place.frame, rule, 0})) pending_.push_back({entry, place.frame, 0});
    return;
  }
  const Item caller{place.op, place.frame, rule, place.counter};
  if (!add(Kind::kWaiting, waiting_, rows_.back().first_waiting, caller)) return;
  // If the rule derives the empty text, its caller goes on at once. Items of a list are excluded: empty items
  // are never needed, because a list whose items may be empty has a minimum of 0 (emit_repeat()).
  if (grammar_->rules[rule].is_nullable && grammar_->ops[place.op].kind != OpKind::kItem) resume(caller);
  auto& [row, frame] = frame_of_rule_[rule];
  if (row == last() && frame < frames_.size() && frames_[frame].row == row && frames_[frame].rule == rule &&
      frame >= rows_.back().first_frame)
    return;
  row = last();
  frame = to_index(frames_.size());
  frames_.push_back({row, rule});
  pending_.push_back({entry, frame, 0});
}

// Resumes the callers of a rule that has ended. After an empty text, call() has already resumed them.
void Rows::complete(uint32_t frame) {
  if (frame == 0) {
    rows_.back().is_complete = true;
    return;
  }
  const auto [row, rule] = frames_[frame];
  if (row == last()) return;
  for (uint32_t i = rows_[row].first_waiting; i < end_waiting(row); ++i)
    if (waiting_[i].state == rule) resume(waiting_[i]);
}

void Rows::resume(const Item& caller) {
  const Op& op = grammar_->ops[caller.op];
  uint32_t counter = caller.counter;
  if (op.kind == OpKind::kItem) {
    counter = std::min(counter + 1, grammar_->lists[op.a].most_counted());
  } else if (op.kind == OpKind::kMemberValue) {
    counter = after_value(grammar_->members[op.a], Members::Progress::of(counter)).counter();
  }
  pending_.push_back({op.next, caller.frame, counter});
}

void Rows::next_of_list(const Pending& place) {
  const Op& op = grammar_->ops[place.op];
  const List& list = grammar_->lists[op.a];
  if (!mark({place.op, place.frame, 0, place.counter})) return;
  const uint32_t num = list.num_items(place.counter);
  if (num >= list.min) pending_.push_back({op.b, place.frame, 0});
  if (num < list.max && (list.are_different() || list.rule(num) != kUnlimited))
    pending_.push_back({op.next, place.frame, place.counter});
}

void Rows::next_member(const Pending& place) {
  const Op& op = grammar_->ops[place.op];
  const Members& members = grammar_->members[op.a];
  const auto at = Members::Progress::of(place.counter);
  if (may_close(members, at)) pending_.push_back({op.b, place.frame, 0});
  if (!legal_names(members, at).is_empty() || may_be_undeclared(members, at))
    pending_.push_back({op.next, place.frame, place.counter});
}

void Rows::member_names(const Pending& place) {
  const Members& members = grammar_->members[grammar_->ops[place.op].a];
  const auto at = Members::Progress::of(place.counter);
  if (!legal_names(members, at).is_empty())
    add(Kind::kItem, items_, rows_.back().first_item, {place.op, place.frame, Trie::kRoot, place.counter});
  if (!may_be_undeclared(members, at)) return;
  for (uint32_t i = 0; i < members.undeclared.size(); ++i)
    pending_.push_back(
        {members.undeclared[i].name_op, place.frame, undeclared_progress(members, at, i).counter()});
}

}  // namespace nibble::grammar
