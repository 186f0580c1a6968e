#include "grammar/automata/expressions.h"

#include <algorithm>

#include "core/errors/check.h"

namespace nibble::grammar {
namespace {

constexpr uint16_t kMaxExpressionDepth{1000};  // limits the recursion of derive()
constexpr size_t kManyAlternatives{16};

uint32_t add_lengths(uint32_t a, uint32_t b) {
  return a == kUnlimited || b == kUnlimited || a > kUnlimited - 1 - b ? kUnlimited : a + b;
}

uint32_t multiply_lengths(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return 0;
  return a == kUnlimited || b == kUnlimited || a > (kUnlimited - 1) / b ? kUnlimited : a * b;
}

size_t mix(size_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
  return hash * 0xFF51AFD7ED558CCDu;
}

}  // namespace

Expressions::Expressions() : slots_(1024) {
  make({.kind = Kind::kNothing});
  make({.kind = Kind::kEmptyText});
  make({.kind = Kind::kAnything});
  any_character_ = set(CodePoints::all());
}

// Each complete_*() fills in the fields that follow from a node's operands, and returns the node's depth.
size_t Expressions::complete_concat(Node& n) const {
  const Node &a = nodes_[n.a], &b = nodes_[n.b];
  n.accepts_empty = a.accepts_empty && b.accepts_empty;
  n.may_be_empty = a.may_be_empty || b.may_be_empty;
  n.min_length = add_lengths(a.min_length, b.min_length);
  n.max_length = add_lengths(a.max_length, b.max_length);
  return std::max<size_t>(a.depth + size_t{1}, b.depth);  // derive_concat() does not recurse into `b`
}

size_t Expressions::complete_any_of(Node& n, std::span<const Expression> parts) const {
  size_t depth = 0;
  n.may_be_empty = true;
  n.min_length = kUnlimited;
  for (const Expression part : parts) {
    const Node& p = node(part);
    n.accepts_empty |= p.accepts_empty;
    n.may_be_empty &= p.may_be_empty;
    n.min_length = std::min(n.min_length, p.min_length);
    n.max_length = std::max(n.max_length, p.max_length);
    depth = std::max<size_t>(depth, p.depth + size_t{1});
  }
  return depth;
}

size_t Expressions::complete_all_of(Node& n, std::span<const Expression> parts) const {
  size_t depth = 0;
  n.accepts_empty = true;
  n.max_length = kUnlimited;
  for (const Expression part : parts) {
    const Node& p = node(part);
    n.accepts_empty &= p.accepts_empty;
    n.min_length = std::max(n.min_length, p.min_length);
    n.max_length = std::min(n.max_length, p.max_length);
    depth = std::max<size_t>(depth, p.depth + size_t{1});
  }
  n.may_be_empty = !std::ranges::all_of(parts, [&](Expression part) { return continues_any(part); });
  return depth;
}

void Expressions::complete(Node& n, std::span<const Expression> parts) const {
  size_t depth = 0;
  switch (n.kind) {
    case Kind::kNothing:
      n.may_be_empty = true;
      break;
    case Kind::kEmptyText:
      n.accepts_empty = true;
      break;
    case Kind::kAnything:
      n.accepts_empty = true;
      n.max_length = kUnlimited;
      break;
    case Kind::kSet:
      n.min_length = n.max_length = 1;
      break;
    case Kind::kConcat:
      depth = complete_concat(n);
      break;
    case Kind::kAnyOf:
      depth = complete_any_of(n, parts);
      break;
    case Kind::kAllOf:
      depth = complete_all_of(n, parts);
      break;
    case Kind::kNot: {
      const Node& a = nodes_[n.a];
      n.accepts_empty = !a.accepts_empty;
      n.may_be_empty = a.max_length == kUnlimited;
      n.max_length = kUnlimited;
      depth = a.depth + size_t{1};
      break;
    }
    case Kind::kRepeat: {
      const Node& a = nodes_[n.a];
      n.accepts_empty = n.min == 0;
      n.may_be_empty = n.min != 0 && a.may_be_empty;
      n.min_length = multiply_lengths(a.min_length, n.min);
      n.max_length = multiply_lengths(a.max_length, n.max);
      depth = a.depth + size_t{1};
      break;
    }
    case Kind::kTrie:
      n.accepts_empty = tries_[n.a].accepts(n.b);
      n.max_length = n.max;
      break;
    case Kind::kMultiple:
      n.min_length = 0;
      n.max_length = kUnlimited;
      break;
  }
  if (depth > kMaxExpressionDepth)
    throw InputError("the expression is nested more than {} levels deep", kMaxExpressionDepth);
  n.depth = static_cast<uint16_t>(depth);
}

bool Expressions::equals(const Node& a, std::span<const Expression> parts, const Node& b) const {
  if (a.kind != b.kind) return false;
  if (has_operands(a)) return std::ranges::equal(parts, operands(b));
  return a.a == b.a && a.b == b.b && a.min == b.min && a.max == b.max && a.accepts_empty == b.accepts_empty;
}

Expression Expressions::make(Node n, std::span<const Expression> parts) {
  const auto hash_of = [&](const Node& of, std::span<const Expression> with) {
    size_t hash = mix(0, static_cast<uint64_t>(of.kind));
    if (has_operands(of)) {
      for (const Expression part : with) hash = mix(hash, static_cast<uint64_t>(part));
    } else {
      hash = mix(mix(mix(hash, of.a), of.b), uint64_t{of.min} << 32 | of.max);
    }
    return hash;
  };
  complete(n, parts);
  size_t slot = hash_of(n, parts) & (slots_.size() - 1);
  for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1))
    if (equals(n, parts, nodes_[slots_[slot] - 1])) return static_cast<Expression>(slots_[slot] - 1);

  if (nodes_.size() >= kMaxExpressions || operands_.size() > 8 * kMaxExpressions)
    throw InputError(
        "the grammar's regular expressions need more than {} states; use fewer repetitions or alternatives",
        kMaxExpressions);
  if (has_operands(n)) {
    n.a = to_index(operands_.size());
    n.b = to_index(parts.size());
    operands_.insert(operands_.end(), parts.begin(), parts.end());
  }
  nodes_.push_back(n);
  slots_[slot] = to_index(nodes_.size());
  if (nodes_.size() * 2 > slots_.size()) {
    slots_.assign(slots_.size() * 2, 0);
    for (size_t id = 0; id < nodes_.size(); ++id) {
      size_t free = hash_of(nodes_[id], operands(nodes_[id])) & (slots_.size() - 1);
      while (slots_[free] != 0) free = (free + 1) & (slots_.size() - 1);
      slots_[free] = to_index(id + 1);
    }
  }
  return static_cast<Expression>(nodes_.size() - 1);
}

Expression Expressions::set(const CodePoints& code_points) {
  if (code_points.empty()) return Expression::kNothing;
  size_t hash = 0;
  for (const CodePointRange& range : code_points.ranges())
    hash = mix(hash, uint64_t{range.first} << 32 | range.last);
  const auto [begin, end] = set_places_.equal_range(hash);
  for (auto known = begin; known != end; ++known)
    if (sets_[known->second] == code_points) return make({.kind = Kind::kSet, .a = known->second});
  fuel_.spend(code_points.ranges().size());
  sets_.push_back(code_points);
  set_places_.emplace(hash, to_index(sets_.size() - 1));
  return make({.kind = Kind::kSet, .a = to_index(sets_.size() - 1)});
}

Expression Expressions::text(std::string_view utf8) {
  std::vector<Expression> parts;
  for (const char32_t code_point : Trie::code_points_of(utf8))
    parts.push_back(set({{code_point, code_point}}));
  return concat(parts);
}

Expression Expressions::concat(Expression a, Expression b) {
  if (a == Expression::kNothing || b == Expression::kNothing) return Expression::kNothing;
  if (a == Expression::kEmptyText) return b;
  if (b == Expression::kEmptyText) return a;
  if (a == Expression::kAnything && b == Expression::kAnything) return a;
  return make({.kind = Kind::kConcat, .a = static_cast<uint32_t>(a), .b = static_cast<uint32_t>(b)});
}

Expression Expressions::concat(std::span<const Expression> parts) {
  Expression result = Expression::kEmptyText;
  for (size_t i = parts.size(); i-- > 0;) result = concat(parts[i], result);
  return result;
}

// Normalises a union or intersection: flattens and sorts its parts, and removes parts without effect, so that
// equal expressions are usually equal nodes. Merges an intersection's bounds on the length into one part.
Expression Expressions::combine(Kind kind, std::span<const Expression> parts) {
  const bool is_union = kind == Kind::kAnyOf;
  const Expression neutral = is_union ? Expression::kNothing : Expression::kAnything;
  const Expression absorbing = is_union ? Expression::kAnything : Expression::kNothing;
  std::vector<Expression> flat;
  CodePoints characters;
  bool has_set = false;
  uint32_t min_length = 0, max_length = kUnlimited;
  const auto add = [&](Expression part) {
    if (part == neutral) return;
    if (!is_union && bounds_length(node(part))) {
      min_length = std::max(min_length, node(part).min);
      max_length = std::min(max_length, node(part).max);
      return;
    }
    if (node(part).kind != Kind::kSet) {
      flat.push_back(part);
      return;
    }
    const CodePoints& more = sets_[node(part).a];
    if (is_union) {
      characters.add(more);
    } else {
      characters = has_set ? characters.intersection(more) : more;
    }
    has_set = true;
  };
  for (const Expression part : parts) {
    fuel_.spend();
    if (node(part).kind == kind) {
      for (const Expression inner : operands(node(part))) add(inner);
    } else {
      add(part);
    }
  }
  if (has_set) flat.push_back(set(characters));
  if (min_length > max_length) return Expression::kNothing;
  const Expression bound = repeat(any_character_, min_length, max_length);
  if (bound != Expression::kAnything && !(bound == any_character_ && has_set)) flat.push_back(bound);
  if (is_union && flat.size() >= kManyAlternatives) join_literals(flat);
  std::ranges::sort(flat);
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return neutral;
  if (std::ranges::find(flat, absorbing) != flat.end()) return absorbing;
  if (flat.size() == 1) return flat[0];
  for (const Expression part : flat)
    if (node(part).kind == Kind::kNot &&
        std::binary_search(flat.begin(), flat.end(), static_cast<Expression>(node(part).a)))
      return absorbing;
  const auto empty = std::ranges::find(flat, Expression::kEmptyText);
  if (empty != flat.end() && !is_union) {
    const bool all = std::ranges::all_of(flat, [&](Expression part) { return accepts_empty(part); });
    return all ? Expression::kEmptyText : Expression::kNothing;
  }
  return make({.kind = kind}, flat);
}

// Returns the only text of an expression that is a sequence of single characters; nullopt for any other.
std::optional<std::u32string> Expressions::literal(Expression a) const {
  const auto character = [&](Expression part) -> std::optional<char32_t> {
    if (node(part).kind != Kind::kSet) return std::nullopt;
    const std::vector<CodePointRange>& ranges = sets_[node(part).a].ranges();
    return ranges.size() == 1 && ranges[0].first == ranges[0].last ? std::optional(ranges[0].first)
                                                                   : std::nullopt;
  };
  std::u32string text;
  for (; node(a).kind == Kind::kConcat; a = static_cast<Expression>(node(a).b)) {
    const auto first = character(static_cast<Expression>(node(a).a));
    if (!first) return std::nullopt;
    text += *first;
  }
  const auto last = character(a);
  return last ? std::optional(text + *last) : std::nullopt;
}

// Merges the alternatives that are fixed texts into one trie if they are many. A single look-up in the trie
// then gives the derivative of all of them.
void Expressions::join_literals(std::vector<Expression>& alternatives) {
  std::vector<std::u32string> texts;
  std::vector<Expression> others;
  for (const Expression alternative : alternatives) {
    std::optional<std::u32string> text = literal(alternative);
    if (text) {
      fuel_.spend(text->size());
      texts.push_back(std::move(*text));
    } else {
      others.push_back(alternative);
    }
  }
  if (texts.size() < kManyAlternatives) return;
  others.push_back(any_text_of(std::move(texts)));
  alternatives = std::move(others);
}

Expression Expressions::of_any_length(Expression a) {
  if (node(a).kind != Kind::kAllOf) return a;
  std::vector<Expression> parts;
  for (const Expression part : operands(node(a)))
    if (!bounds_length(node(part))) parts.push_back(part);
  return all_of(parts);
}

Expression Expressions::any_of(std::span<const Expression> parts) { return combine(Kind::kAnyOf, parts); }
Expression Expressions::all_of(std::span<const Expression> parts) { return combine(Kind::kAllOf, parts); }

Expression Expressions::complement(Expression a) {
  if (a == Expression::kNothing) return Expression::kAnything;
  if (a == Expression::kAnything) return Expression::kNothing;
  if (node(a).kind == Kind::kNot) return static_cast<Expression>(node(a).a);
  return make({.kind = Kind::kNot, .a = static_cast<uint32_t>(a)});
}

Expression Expressions::repeat(Expression a, uint32_t min, uint32_t max) {
  NIBBLE_CHECK(min <= max, "{} {}", min, max);
  if (max == 0 || a == Expression::kEmptyText) return Expression::kEmptyText;
  if (a == Expression::kNothing) return min == 0 ? Expression::kEmptyText : Expression::kNothing;
  if (accepts_empty(a)) min = 0;
  if (max == 1 && (min == 1 || accepts_empty(a))) return a;
  if (a == Expression::kAnything) return a;
  if (a == any_character_ && min == 0 && max == kUnlimited) return Expression::kAnything;
  const Node& inner = node(a);
  // Merge nested repetitions unless the possible counts could have gaps, as in (x{2}){0,3}. Unmerged,
  // (x{0,1000}){0,1000} has a million states.
  if (inner.kind == Kind::kRepeat && (inner.min <= 1 || min == max))
    return repeat(static_cast<Expression>(inner.a), multiply_lengths(inner.min, min),
                  multiply_lengths(inner.max, max));
  return make({.kind = Kind::kRepeat, .a = static_cast<uint32_t>(a), .min = min, .max = max});
}

Expression Expressions::any_text_of(const std::vector<std::string>& texts) {
  std::vector<std::u32string> code_points;
  for (const std::string& text : texts) code_points.push_back(Trie::code_points_of(text));
  return any_text_of(std::move(code_points));
}

Expression Expressions::any_text_of(std::vector<std::u32string> texts) {
  size_t longest = 0;
  for (const std::u32string& text : texts) longest = std::max(longest, text.size());
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  if (texts.empty()) return Expression::kNothing;
  tries_.emplace_back(texts);
  return make(
      {.kind = Kind::kTrie, .a = to_index(tries_.size() - 1), .b = Trie::kRoot, .max = to_index(longest)});
}

}  // namespace nibble::grammar
