#include <algorithm>

#include "core/text/json.h"
#include "grammar/program/builder.h"

namespace nibble::grammar {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

}  // namespace

uint32_t GrammarBuilder::add_op(Op op) {
  if (grammar_->ops.size() >= 2 * kMaxNodes)
    throw InputError("the grammar has too many parts; make it smaller");
  grammar_->ops.push_back(op);
  return to_index(grammar_->ops.size() - 1);
}

uint32_t GrammarBuilder::emit_match(uint32_t terminal, uint32_t next, bool keeps_counter) {
  return add_op({.kind = OpKind::kMatch, .keeps_counter = keeps_counter, .a = terminal, .next = next});
}

uint32_t GrammarBuilder::rule_of(NodeId id) {
  while (node(id).kind == Kind::kReference) id = node(id).parts[0];
  const auto [known, is_new] = rules_.emplace(static_cast<uint32_t>(id), to_index(grammar_->rules.size()));
  if (is_new) {
    grammar_->rules.push_back({0, is_nullable(id)});
    rules_to_emit_.push_back(id);
  }
  return known->second;
}

uint32_t GrammarBuilder::emit(NodeId id, uint32_t next) {
  if (const auto expression = regular(id)) {
    if (*expression == Expression::kEmptyText) return next;
    return emit_match(terminal_of(*expression, encoding_, {}), next);
  }
  const Node& n = node(id);
  switch (n.kind) {
    case Kind::kOneOf: {
      std::vector<std::u32string> texts;
      for (const std::string& text : texts_[n.place]) texts.push_back(Trie::bytes_of(text));
      grammar_->terminals.push_back({.kind = Terminal::Kind::kTexts, .index = trie_of(texts)});
      return emit_match(to_index(grammar_->terminals.size() - 1), next);
    }
    case Kind::kJsonString:
      return emit_match(n.place, next);
    case Kind::kSequence:
      return emit_sequence(n.parts, next);
    case Kind::kChoice:
      return emit_choice(n.parts, next);
    case Kind::kRepeat:
      return emit_repeat(n, next);
    case Kind::kArray: {
      const JsonArray& array = arrays_[n.place];
      return array.needed ? emit_array_with_needed(array, next) : emit_array(array, next);
    }
    case Kind::kDifferent: {
      std::vector<std::u32string> texts;
      for (const std::string& text : texts_[n.place]) texts.push_back(Trie::bytes_of(text));
      return emit_list({.first = {}, .min = n.min, .max = n.max, .texts = trie_of(texts)}, next);
    }
    case Kind::kObject:
      return emit_object(objects_[n.place], next);
    case Kind::kReference:
      return add_op({.kind = OpKind::kCall, .a = rule_of(id), .next = next});
    default:
      break;  // empty texts are regular; nodes without a text are never emitted
  }
  NIBBLE_CHECK(false, "node {} of kind {}", static_cast<uint32_t>(id), static_cast<int>(n.kind));
  return next;
}

// Emits the parts from last to first; consecutive regular parts become one terminal.
uint32_t GrammarBuilder::emit_sequence(const std::vector<NodeId>& parts, uint32_t next) {
  for (size_t end = parts.size(); end > 0;) {
    size_t begin = end;
    std::vector<Expression> run;
    while (begin > 0 && regular(parts[begin - 1])) run.insert(run.begin(), *regular(parts[--begin]));
    if (begin < end) {
      const Expression expression = expressions().concat(run);
      if (expression != Expression::kEmptyText)
        next = emit_match(terminal_of(expression, encoding_, {}), next);
      end = begin;
    } else {
      next = emit(parts[--end], next);
    }
  }
  return next;
}

uint32_t GrammarBuilder::emit_choice(const std::vector<NodeId>& parts, uint32_t next) {
  std::vector<uint32_t> targets;
  std::vector<Expression> regular_parts;
  for (const NodeId part : parts) {
    if (!is_productive(part)) continue;
    if (regular(part)) {
      regular_parts.push_back(*regular(part));
    } else {
      targets.push_back(emit(part, next));
    }
  }
  if (!regular_parts.empty()) {
    const Expression expression = expressions().any_of(regular_parts);
    targets.push_back(expression == Expression::kEmptyText
                          ? next
                          : emit_match(terminal_of(expression, encoding_, {}), next));
  }
  return emit_fork(targets);
}

uint32_t GrammarBuilder::emit_fork(const std::vector<uint32_t>& targets) {
  if (targets.size() == 1) return targets[0];
  const uint32_t first = to_index(grammar_->targets.size());
  grammar_->targets.insert(grammar_->targets.end(), targets.begin(), targets.end());
  return add_op({.kind = OpKind::kFork, .a = first, .b = to_index(targets.size())});
}

uint32_t GrammarBuilder::emit_repeat(const Node& n, uint32_t next) {
  const NodeId part = n.parts[0];
  if (!is_productive(part) || n.max == 0) return next;
  if (n.max == 1 && n.min == 1) return emit(part, next);
  if (n.max == 1) return emit_fork({emit(part, next), next});
  const uint32_t list = to_index(grammar_->lists.size());
  grammar_->lists.push_back(
      {.first = {}, .rest = rule_of(part), .min = is_nullable(part) ? 0 : n.min, .max = n.max});
  const uint32_t item = add_op({.kind = OpKind::kItem, .a = list});
  const uint32_t loop = add_op({.kind = OpKind::kNext, .a = list, .b = next, .next = item});
  grammar_->ops[item].next = loop;
  return loop;
}

// Returns `before`, then optional white space: a line break with spaces or tabs or, after a comma, a space.
Expression GrammarBuilder::blank_expression(std::string_view before) {
  Expressions& e = expressions();
  const Expression line = e.concat(e.text("\n"), e.repeat(e.set({{' ', ' '}, {'\t', '\t'}}), 0, 20));
  return e.concat(e.text(before), e.optional(before == "," ? e.any_of(e.text(" "), line) : line));
}

uint32_t GrammarBuilder::punctuation(Expression expression, uint32_t next) {
  return emit_match(terminal_of(expression, Encoding::kUtf8, {}), next, true);
}

uint32_t GrammarBuilder::emit_array(const JsonArray& array, uint32_t next) {
  List list{.first = {}, .rest = kUnlimited, .min = array.min, .max = array.max};
  for (const NodeId item : array.first) {
    if (!is_productive(item)) {
      list.max = std::min(list.max, to_index(list.first.size()));
      break;
    }
    list.first.push_back(rule_of(item));
  }
  if (list.first.size() == array.first.size() && array.rest && is_productive(*array.rest))
    list.rest = rule_of(*array.rest);
  return emit_list(std::move(list), next);
}

uint32_t GrammarBuilder::emit_list(List list, uint32_t next) {
  const uint32_t place = to_index(grammar_->lists.size());
  grammar_->lists.push_back(std::move(list));

  Expressions& e = expressions();
  const uint32_t item = add_op({.kind = OpKind::kItem, .a = place});
  const uint32_t close = punctuation(e.concat(blank_expression(""), e.text("]")), next);
  const uint32_t comma = punctuation(blank_expression(","), item);
  grammar_->ops[item].next = add_op({.kind = OpKind::kNext, .a = place, .b = close, .next = comma});
  const uint32_t start = add_op({.kind = OpKind::kNext,
                                 .a = place,
                                 .b = punctuation(e.text("]"), next),
                                 .next = punctuation(blank_expression(""), item)});
  return punctuation(e.text("["), start);
}

// Emits three lists with a common count: usual items, one needed item, usual items. The array may end only in
// the last list.
uint32_t GrammarBuilder::emit_array_with_needed(const JsonArray& array, uint32_t next) {
  const std::vector<bool> places = needed_places(array);
  const size_t num_first = places.size() - 1;
  const auto rule_at = [&](const Items& items, size_t i) {
    const std::optional<NodeId> item = productive_item(items, i);
    return item ? rule_of(*item) : kUnlimited;
  };
  const Items usual{array.first, array.rest}, needed{array.needed->first, array.needed->rest};
  List behind{.first = {}, .min = array.min, .max = array.max}, one = behind, before = behind;
  for (size_t i = 0; i < num_first; ++i) {
    behind.first.push_back(rule_at(usual, i));
    one.first.push_back(places[i] ? rule_at(needed, i) : kUnlimited);
  }
  behind.rest = rule_at(usual, num_first);
  one.rest = places[num_first] ? rule_at(needed, num_first) : kUnlimited;
  before.first = behind.first;
  before.rest = behind.rest;
  before.min = kUnlimited;
  if (array.max != kUnlimited) before.max = array.max - 1;
  // The first list must end before the last place where a needed item is possible.
  if (!places[num_first])
    before.max = to_index(
        static_cast<size_t>(std::find(places.rbegin(), places.rend(), true).base() - places.begin() - 1));
  else if (behind.rest == kUnlimited)
    before.max = std::min(before.max, to_index(num_first));

  const auto add_list = [&](List list) {
    grammar_->lists.push_back(std::move(list));
    return to_index(grammar_->lists.size() - 1);
  };
  Expressions& e = expressions();
  const uint32_t place_before = add_list(std::move(before)), place_behind = add_list(std::move(behind));
  const uint32_t item_before = add_op({.kind = OpKind::kItem, .a = place_before});
  const uint32_t item_needed = add_op({.kind = OpKind::kItem, .a = add_list(std::move(one))});
  const uint32_t item_behind = add_op({.kind = OpKind::kItem, .a = place_behind});
  const uint32_t item = emit_fork(
      {add_op({.kind = OpKind::kNext, .a = place_before, .b = 0, .next = item_before}), item_needed});
  const uint32_t close = punctuation(e.concat(blank_expression(""), e.text("]")), next);
  grammar_->ops[item_before].next = punctuation(blank_expression(","), item);
  grammar_->ops[item_needed].next = grammar_->ops[item_behind].next =
      add_op({.kind = OpKind::kNext,
              .a = place_behind,
              .b = close,
              .next = punctuation(blank_expression(","), item_behind)});
  return punctuation(e.text("["), punctuation(blank_expression(""), item));
}

uint32_t GrammarBuilder::emit_object(const JsonObject& object, uint32_t next) {
  const uint32_t place = to_index(grammar_->members.size());
  grammar_->members.emplace_back();
  Members members;
  members.min = object.min;
  members.max = object.max;
  std::vector<std::pair<std::u32string, uint32_t>> names;
  std::vector<bool> is_required;
  for (const Member& member : object.members) {
    if (!is_productive(member.value)) continue;
    names.emplace_back(Trie::bytes_of(quoted(member.name) + ":"), members.num_declared());
    members.values.push_back(rule_of(member.value));
    is_required.push_back(member.is_required);
  }
  std::ranges::sort(names);
  std::vector<std::u32string> texts;
  for (const auto& [text, position] : names) {
    texts.push_back(text);
    members.positions.push_back(position);
  }
  members.names = trie_of(texts);
  const uint32_t num = members.num_declared();
  members.next_required.assign(num + 1, num);
  members.num_required.assign(num + 1, 0);
  for (uint32_t i = num; i-- > 0;) {
    members.next_required[i] = is_required[i] ? i : members.next_required[i + 1];
    members.num_required[i] = members.num_required[i + 1] + is_required[i];
  }

  Expressions& e = expressions();
  const uint32_t value = add_op({.kind = OpKind::kMemberValue, .a = place});
  members.value_op = punctuation(e.optional(e.text(" ")), value);
  const uint32_t colon = punctuation(e.concat(e.text(":"), e.optional(e.text(" "))), value);
  for (const Undeclared& undeclared : object.undeclared) {
    if (!is_productive(undeclared.value)) continue;
    const uint32_t name = terminal_of(undeclared.name, Encoding::kJsonString, {});
    if (name == kUnlimited) continue;
    members.undeclared.push_back({emit_match(name, colon, true), rule_of(undeclared.value)});
  }
  const uint32_t member = add_op({.kind = OpKind::kMemberNames, .a = place});
  const uint32_t close = punctuation(e.concat(blank_expression(""), e.text("}")), next);
  const uint32_t comma = punctuation(blank_expression(","), member);
  grammar_->ops[value].next = add_op({.kind = OpKind::kMembersNext, .a = place, .b = close, .next = comma});
  const uint32_t start = add_op({.kind = OpKind::kMembersNext,
                                 .a = place,
                                 .b = punctuation(e.text("}"), next),
                                 .next = punctuation(blank_expression(""), member)});
  grammar_->members[place] = std::move(members);
  return punctuation(e.text("{"), start);
}

uint32_t GrammarBuilder::trie_of(std::vector<std::u32string>& texts) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  grammar_->tries.emplace_back(texts);
  return to_index(grammar_->tries.size() - 1);
}

}  // namespace nibble::grammar
