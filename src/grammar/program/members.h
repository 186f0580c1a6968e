#pragma once

#include <algorithm>

#include "grammar/program/grammar.h"

namespace nibble::grammar {

struct Positions {  // declared members from `first` to `end` - 1
  uint32_t first, end;
  bool is_empty() const { return first >= end; }
};

// Returns the declared members that may come next. None after the first required member is legal, because a
// required member can't be skipped. Only that member is legal if all members that the maximum still allows
// are needed for required ones. If the object declares all its members, a member is also illegal if too few
// members come after it to reach the minimum.
inline Positions legal_names(const Members& members, Members::Progress at) {
  const uint32_t num = members.num_declared();
  if (at.position >= num || at.count >= members.max) return {0, 0};
  const uint32_t required = members.next_required[at.position];
  Positions legal{at.position, std::min(required + 1, num)};
  if (members.max != kUnlimited && at.count + members.num_required[at.position] >= members.max)
    legal.first = required;
  if (members.undeclared.empty() && members.min > 0)
    legal.end = std::min(legal.end, at.count + num >= members.min ? at.count + num - members.min + 1 : 0);
  return legal;
}

inline bool is_done_with_required(const Members& members, Members::Progress at) {
  return at.position >= members.num_declared() || members.num_required[at.position] == 0;
}

inline bool may_be_undeclared(const Members& members, Members::Progress at) {
  return !members.undeclared.empty() && at.count < members.max && is_done_with_required(members, at);
}

inline bool may_close(const Members& members, Members::Progress at) {
  return at.count >= members.min && is_done_with_required(members, at);
}

// Returns the progress while an undeclared member is read. `at`: the progress before that member. Positions
// from num_declared() + 2 on encode the member's index in Members::undeclared and whether another undeclared
// member came before it. After the member, the position is num_declared() + 1.
inline Members::Progress undeclared_progress(const Members& members, Members::Progress at, uint32_t kind) {
  const uint32_t num = members.num_declared();
  return {num + 2 + 2 * kind + (at.position == num + 1), at.count};
}

inline uint32_t undeclared_kind(const Members& members, Members::Progress at) {
  return (at.position - members.num_declared() - 2) / 2;
}

// Returns the progress after a value. Undeclared members with the same name are one member of the parsed
// object, and the text may repeat one name. So without a maximum, only the first undeclared member counts
// (towards the minimum). With a maximum, every undeclared member counts.
inline Members::Progress after_value(const Members& members, Members::Progress at) {
  const uint32_t num = members.num_declared();
  const bool is_declared = at.position < num;
  const bool counts = members.max != kUnlimited || is_declared || (at.position - num) % 2 == 0;
  if (members.is_counted() && counts)
    at.count = std::min(at.count + 1, members.max != kUnlimited ? members.max : members.min);
  at.position = is_declared ? at.position + 1 : num + 1;
  return at;
}

}  // namespace nibble::grammar
