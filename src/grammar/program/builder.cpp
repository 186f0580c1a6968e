#include "grammar/program/builder.h"

#include <algorithm>
#include <utility>

#include "core/errors/check.h"
#include "grammar/program/rows.h"

namespace nibble::grammar {

GrammarBuilder::GrammarBuilder(Encoding encoding)
    : encoding_(encoding), grammar_(std::make_shared<Grammar>()) {
  NIBBLE_CHECK(!has_quotes(encoding));
}

NodeId GrammarBuilder::add(Node node) {
  if (nodes_.size() == kMaxNodes)
    throw InputError("the grammar has more than {} parts; make it smaller", kMaxNodes);
  grammar_->expressions.fuel().spend(1 + node.parts.size());
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId GrammarBuilder::nothing() { return add({.kind = Kind::kNothing}); }
NodeId GrammarBuilder::empty_text() { return add({.kind = Kind::kEmptyText}); }

NodeId GrammarBuilder::text_of(Expression expression) {
  if (expressions().may_be_empty(expression) && !has_text(expression)) return nothing();
  return add({.kind = Kind::kText, .expression = expression});
}

NodeId GrammarBuilder::one_of(std::vector<std::string> texts) {
  if (texts.empty()) return nothing();
  for (const std::string& text : texts) num_literal_bytes_ += text.size() + 1;
  if (num_literal_bytes_ > kMaxLiteralBytes)
    throw InputError("the grammar's fixed texts exceed {} bytes; list fewer", kMaxLiteralBytes);
  texts_.push_back(std::move(texts));
  return add({.kind = Kind::kOneOf, .place = to_index(texts_.size() - 1)});
}

NodeId GrammarBuilder::json_string(Expression expression, Encoding encoding, Counts counts) {
  const uint32_t terminal = terminal_of(expression, encoding, counts);
  return terminal == kUnlimited ? nothing() : add({.kind = Kind::kJsonString, .place = terminal});
}

// one_of() writes the quotes, because it matches plain bytes in every encoding.
NodeId GrammarBuilder::argument(const std::string& name, NodeId node) {
  NIBBLE_CHECK(encoding_ == Encoding::kJsonContent);
  const NodeId quote = one_of({"\""});
  JsonObject object;
  object.members.push_back({name, true, sequence({quote, node, quote})});
  return json_object(std::move(object));
}

NodeId GrammarBuilder::sequence(std::vector<NodeId> parts) {
  if (parts.size() == 1) return parts[0];
  return add({.kind = Kind::kSequence, .parts = std::move(parts)});
}

// Alternatives with the same first part share that part, as in `list: item | item "," list`. Otherwise a mask
// would have to follow the part at two positions, byte by byte. The remaining parts are not factored again,
// so that nodes do not nest deeply.
NodeId GrammarBuilder::choice(std::vector<NodeId> parts) {
  std::map<NodeId, std::vector<NodeId>> alike;  // alternatives by first part
  std::vector<NodeId> beginnings;
  for (const NodeId part : parts) {
    const Node& n = node(part);
    const NodeId beginning = n.kind == Kind::kSequence && !n.parts.empty() ? n.parts[0] : part;
    if (alike[beginning].empty()) beginnings.push_back(beginning);
    alike[beginning].push_back(part);
  }
  if (beginnings.size() < parts.size()) {
    parts.clear();
    for (const NodeId beginning : beginnings) {
      const std::vector<NodeId>& together = alike[beginning];
      std::vector<NodeId> rests;
      for (const NodeId part : together) {
        if (part == beginning) {
          rests.push_back(empty_text());
        } else {
          const std::vector<NodeId>& whole = node(part).parts;
          rests.push_back(sequence({whole.begin() + 1, whole.end()}));
        }
      }
      parts.push_back(together.size() == 1
                          ? together[0]
                          : sequence({beginning, add({.kind = Kind::kChoice, .parts = std::move(rests)})}));
    }
  }
  if (parts.size() == 1) return parts[0];
  return add({.kind = Kind::kChoice, .parts = std::move(parts)});
}

NodeId GrammarBuilder::repeat(NodeId part, uint32_t min, uint32_t max) {
  NIBBLE_CHECK(min <= max, "{} {}", min, max);
  return add({.kind = Kind::kRepeat, .min = min, .max = max, .parts = {part}});
}

NodeId GrammarBuilder::json_array(JsonArray array) {
  Node node{.kind = Kind::kArray, .parts = array.first, .place = to_index(arrays_.size())};
  if (array.rest) node.parts.push_back(*array.rest);
  if (array.needed) {
    node.parts.insert(node.parts.end(), array.needed->first.begin(), array.needed->first.end());
    if (array.needed->rest) node.parts.push_back(*array.needed->rest);
  }
  arrays_.push_back(std::move(array));
  return add(std::move(node));
}

NodeId GrammarBuilder::json_array_of_different(std::vector<std::string> texts, uint32_t min, uint32_t max) {
  NIBBLE_CHECK(texts.size() <= kMaxDifferent, "{}", texts.size());
  max = std::min(max, to_index(texts.size()));
  if (min > max) return nothing();
  for (const std::string& text : texts) num_literal_bytes_ += text.size() + 1;
  if (num_literal_bytes_ > kMaxLiteralBytes)
    throw InputError("the grammar's fixed texts exceed {} bytes; list fewer", kMaxLiteralBytes);
  texts_.push_back(std::move(texts));
  return add({.kind = Kind::kDifferent, .min = min, .max = max, .place = to_index(texts_.size() - 1)});
}

NodeId GrammarBuilder::json_object(JsonObject object) {
  constexpr size_t kMaxPositions{60'000};  // Members::Progress has 16 bits for a position
  if (object.members.size() + object.undeclared.size() > kMaxPositions)
    throw InputError("an object declares more than {} members; declare fewer", kMaxPositions);
  for (uint32_t* count : {&object.min, &object.max})
    if (*count > 0xFFFF && *count != kUnlimited)
      throw InputError("minProperties or maxProperties is {}; at most {} is supported", *count, 0xFFFF);
  Node node{.kind = Kind::kObject, .place = to_index(objects_.size())};
  for (const Member& member : object.members) {
    node.parts.push_back(member.value);
    num_literal_bytes_ += member.name.size() + 3;
  }
  if (num_literal_bytes_ > kMaxLiteralBytes)
    throw InputError("the grammar's fixed texts exceed {} bytes; list fewer", kMaxLiteralBytes);
  for (const Undeclared& undeclared : object.undeclared) node.parts.push_back(undeclared.value);
  objects_.push_back(std::move(object));
  return add(std::move(node));
}

NodeId GrammarBuilder::declare() { return add({.kind = Kind::kReference}); }

void GrammarBuilder::define(NodeId declared, NodeId as) {
  Node& node = nodes_[static_cast<uint32_t>(declared)];
  NIBBLE_CHECK(node.kind == Kind::kReference && node.parts.empty());
  node.parts = {as};
}

// Whether a node derives a text, as far as is known now. Skips parts that passed in earlier calls.
bool GrammarBuilder::derives_text(uint32_t id) {
  const Node& n = nodes_[id];
  const auto does = [&](NodeId part) { return is_productive(part); };
  const auto all_do = [&](size_t num, const auto& is_done) {
    uint32_t& passed = num_passed_[id];
    while (passed < num && is_done(passed)) ++passed;
    return passed >= num;
  };
  switch (n.kind) {
    case Kind::kNothing:
      return false;
    case Kind::kEmptyText:
    case Kind::kText:
    case Kind::kOneOf:
    case Kind::kJsonString:
    case Kind::kDifferent:
      return true;
    case Kind::kSequence:
      return all_do(n.parts.size(), [&](size_t i) { return does(n.parts[i]); });
    case Kind::kChoice:
    case Kind::kReference:
      return std::ranges::any_of(n.parts, does);
    case Kind::kRepeat:
      return n.min == 0 || does(n.parts[0]);
    case Kind::kArray: {
      const JsonArray& array = arrays_[n.place];
      if (array.needed) return std::ranges::count(needed_places(array), true) > 0;
      const size_t num_needed = std::min<size_t>(array.min, array.first.size());
      return array.min <= array.max && all_do(num_needed, [&](size_t i) { return does(array.first[i]); }) &&
             (array.min <= array.first.size() || (array.rest && does(*array.rest)));
    }
    case Kind::kObject: {
      const JsonObject& object = objects_[n.place];
      if (!all_do(object.members.size(),
                  [&](size_t i) { return !object.members[i].is_required || does(object.members[i].value); }))
        return false;
      expressions().fuel().spend(object.members.size() / 16);
      size_t num_possible = 0, num_required = 0;
      for (const Member& member : object.members) {
        num_possible += does(member.value);
        num_required += member.is_required;
      }
      const bool has_others =
          std::ranges::any_of(object.undeclared, [&](const Undeclared& other) { return does(other.value); });
      // Without a maximum, all undeclared members together count as one, because they may have the same name.
      const bool has_enough =
          object.min <= num_possible + has_others || (has_others && object.max != kUnlimited);
      return object.min <= object.max && num_required <= object.max && has_enough;
    }
  }
  return false;
}

std::optional<NodeId> GrammarBuilder::productive_item(Items items, size_t place) const {
  const auto& [first, rest] = items;
  const std::optional<NodeId> item = place < first.size() ? first[place] : rest;
  return item && is_productive(*item) ? item : std::nullopt;
}

// Returns for each index whether the item that `array.needed` demands can be at that index; the last entry
// stands for all later indices. An index is possible only if usual items can fill all indices before it
// and all later indices below `array.min`.
std::vector<bool> GrammarBuilder::needed_places(const JsonArray& array) const {
  const Items usual{array.first, array.rest}, needed{array.needed->first, array.needed->rest};
  const size_t num = std::max(array.first.size(), array.needed->first.size());
  std::vector<bool> places(num + 1);
  for (size_t i = 0; i <= num && i < array.max; ++i) {
    bool is_possible = array.min <= array.max && productive_item(needed, i).has_value();
    for (size_t behind = i + 1; behind < array.min && is_possible; ++behind) {
      is_possible = productive_item(usual, behind).has_value();
      if (behind > num) break;
    }
    places[i] = is_possible;
    if (!productive_item(usual, i)) break;
  }
  return places;
}

// Works from the leaves up: once a node is known to derive a text, the nodes that use it are checked again.
void GrammarBuilder::find_productive() {
  productive_.assign(nodes_.size(), false);
  num_passed_.assign(nodes_.size(), 0);
  std::vector<std::vector<uint32_t>> users(nodes_.size());
  std::vector<uint32_t> open;
  for (uint32_t id = 0; id < nodes_.size(); ++id) {
    for (const NodeId part : nodes_[id].parts) users[static_cast<uint32_t>(part)].push_back(id);
    open.push_back(id);
  }
  while (!open.empty()) {
    const uint32_t id = open.back();
    open.pop_back();
    if (productive_[id]) continue;
    expressions().fuel().spend();
    if (!derives_text(id)) continue;
    productive_[id] = true;
    open.insert(open.end(), users[id].begin(), users[id].end());
  }
}

// Whether a node derives the empty text, as far as is known now.
bool GrammarBuilder::derives_empty(const Node& n) {
  const auto does = [&](NodeId part) { return is_nullable(part) && is_productive(part); };
  switch (n.kind) {
    case Kind::kEmptyText:
      return true;
    case Kind::kText:
      return expressions().accepts_empty(n.expression);
    case Kind::kOneOf:
      return std::ranges::find(texts_[n.place], "") != texts_[n.place].end();
    case Kind::kSequence:
      return std::ranges::all_of(n.parts, does);
    case Kind::kChoice:
    case Kind::kReference:
      return std::ranges::any_of(n.parts, does);
    case Kind::kRepeat:
      return n.min == 0 || does(n.parts[0]);
    default:
      return false;
  }
}

void GrammarBuilder::find_nullable() {
  nullable_.assign(nodes_.size(), false);
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    expressions().fuel().spend(nodes_.size() / 4);
    for (uint32_t id = 0; id < nodes_.size(); ++id)
      if (!nullable_[id] && derives_empty(nodes_[id])) has_changed = nullable_[id] = true;
  }
}

// Finds the expression of each regular node, parts first. Recursive nodes have no expression.
void GrammarBuilder::find_regular() {
  regular_.assign(nodes_.size(), std::nullopt);
  std::vector<std::vector<uint32_t>> users(nodes_.size());
  std::vector<size_t> num_missing(nodes_.size());
  std::vector<uint32_t> ready;
  for (uint32_t id = 0; id < nodes_.size(); ++id) {
    for (const NodeId part : nodes_[id].parts) users[static_cast<uint32_t>(part)].push_back(id);
    num_missing[id] = nodes_[id].parts.size();
    if (num_missing[id] == 0) ready.push_back(id);
  }
  while (!ready.empty()) {
    const uint32_t id = ready.back();
    ready.pop_back();
    const Node& n = nodes_[id];
    std::vector<Expression> parts;
    bool has_all = productive_[id];
    for (const NodeId part : n.parts) {
      if (n.kind == Kind::kChoice && !is_productive(part)) continue;
      has_all = has_all && regular(part);
      if (has_all) parts.push_back(*regular(part));
    }
    if (has_all) {
      if (n.kind == Kind::kEmptyText) regular_[id] = Expression::kEmptyText;
      if (n.kind == Kind::kText) regular_[id] = n.expression;
      if (n.kind == Kind::kSequence) regular_[id] = expressions().concat(parts);
      if (n.kind == Kind::kChoice) regular_[id] = expressions().any_of(parts);
      if (n.kind == Kind::kRepeat) regular_[id] = expressions().repeat(parts[0], n.min, n.max);
      if (n.kind == Kind::kReference && !parts.empty()) regular_[id] = parts[0];
    }
    for (const uint32_t user : users[id])
      if (--num_missing[user] == 0) ready.push_back(user);
  }
}

std::shared_ptr<Grammar> GrammarBuilder::build(NodeId root) {
  find_productive();
  if (!is_productive(root))
    throw NoText("no text satisfies the grammar or schema: it contradicts itself or recurses without end");
  find_nullable();
  find_regular();
  add_op({.kind = OpKind::kReturn});
  // rules[0] only calls the root's rule, and no other rule calls rules[0]. So frame 0, which has no caller,
  // never stands for an inner call, even if the root is left-recursive.
  grammar_->rules.emplace_back();
  const uint32_t called = rule_of(root);
  grammar_->rules[0].entry = add_op({.kind = OpKind::kCall, .a = called});
  while (!rules_to_emit_.empty()) {
    const NodeId id = rules_to_emit_.back();
    rules_to_emit_.pop_back();
    const uint32_t entry = emit(id, 0);
    grammar_->rules[rules_.at(static_cast<uint32_t>(id))].entry = entry;
  }
  const Rows check(*grammar_);  // throws if the first row exceeds a limit
  return std::move(grammar_);
}

}  // namespace nibble::grammar
