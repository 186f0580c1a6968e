// Regular expressions over code points, with intersection, complement and counted repetition. A text of an
// expression is a string that it matches. The derivative of an expression by a character matches the texts
// that may follow this character (Brzozowski, JACM 1964; Owens, Reppy, Turon, "Regular-expression derivatives
// re-examined", JFP 2009). So expressions serve as states of an automaton, created when a text first reaches
// them; x{0,1000000} is a single node. Equal expressions have equal ids, which bounds the number of states.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/automata/code_points.h"
#include "grammar/automata/trie.h"
#include "grammar/limits.h"

namespace nibble::grammar {

enum class Expression : uint32_t {
  kNothing,
  kEmptyText,
  kAnything,  // matches any text
};

class Expressions {
 public:
  Expressions();

  Expression set(const CodePoints& code_points);  // matches one character of the set
  Expression text(std::string_view utf8);
  Expression concat(Expression a, Expression b);
  Expression concat(std::span<const Expression> parts);
  Expression any_of(std::span<const Expression> parts);
  Expression all_of(std::span<const Expression> parts);
  Expression any_of(Expression a, Expression b) { return any_of(std::vector{a, b}); }
  Expression all_of(Expression a, Expression b) { return all_of(std::vector{a, b}); }
  Expression complement(Expression a);
  Expression repeat(Expression a, uint32_t min, uint32_t max = kUnlimited);
  Expression optional(Expression a) { return repeat(a, 0, 1); }
  Expression any_text_of(const std::vector<std::string>& texts);  // UTF-8 texts, put into one trie
  Expression any_text_of(std::vector<std::u32string> texts);
  // Returns an expression for the decimal integers divisible by `divisor`, with an optional minus sign but
  // without leading zeros; "-0" does not match. Up to `num_decimals` digits may follow a decimal point. The
  // unit of `divisor` is the last decimal: multiple_of(25, 2) matches the multiples of 0.25.
  Expression multiple_of(uint32_t divisor, uint32_t num_decimals);

  bool accepts_empty(Expression a) const { return node(a).accepts_empty; }
  Expression derivative(Expression a, char32_t code_point);

  // False: the expression and its derivatives, other than kNothing, each match at least one text. True: this
  // is unknown.
  bool may_be_empty(Expression a) const { return node(a).may_be_empty; }
  // True: every string can be continued to a text that the expression matches. False: this is unknown.
  bool continues_any(Expression a) const;
  // Bounds on the length of the expression's texts, in characters.
  uint32_t min_length(Expression a) const { return node(a).min_length; }
  uint32_t max_length(Expression a) const { return node(a).max_length; }

  // Removes from an intersection the parts that only bound the length. Returns other expressions unchanged.
  Expression of_any_length(Expression a);

  // Returns each set of characters that the expression's derivatives distinguish, without duplicates.
  std::vector<CodePoints> sets_of(Expression a) const;

  Fuel& fuel() { return fuel_; }
  size_t bytes() const;

 private:
  enum class Kind : uint8_t {
    kNothing,
    kEmptyText,
    kAnything,
    kSet,
    kConcat,
    kAnyOf,
    kAllOf,
    kNot,
    kRepeat,
    kTrie,
    kMultiple
  };
  struct Node {
    Kind kind;
    bool accepts_empty{false}, may_be_empty{false};
    uint16_t depth{0};
    // kSet: `a` indexes sets_. kConcat: parts `a` and `b`. kNot, kRepeat: operand `a`. kAnyOf, kAllOf: `b`
    // operands that start at operands_[a]. kTrie: node `b` of tries_[a]. kMultiple: multiples_[a] in state
    // `b` (Digits in derivatives.cpp).
    uint32_t a{0}, b{0};
    uint32_t min{0}, max{0};  // kRepeat: the counts; kTrie: `max` is the length of the longest text
    uint32_t min_length{0}, max_length{0};
  };
  struct Multiple {
    uint32_t divisor, num_decimals;
    bool operator==(const Multiple&) const = default;
  };

  const Node& node(Expression a) const { return nodes_[static_cast<uint32_t>(a)]; }
  bool bounds_length(const Node& n) const {
    return n.kind == Kind::kRepeat && n.a == static_cast<uint32_t>(any_character_);
  }
  static bool has_operands(const Node& n) { return n.kind == Kind::kAnyOf || n.kind == Kind::kAllOf; }
  std::span<const Expression> operands(const Node& n) const {
    return has_operands(n) ? std::span(operands_).subspan(n.a, n.b) : std::span<const Expression>{};
  }
  Expression make(Node node, std::span<const Expression> operands = {});
  void complete(Node& node, std::span<const Expression> operands) const;
  size_t complete_concat(Node& node) const;
  size_t complete_any_of(Node& node, std::span<const Expression> operands) const;
  size_t complete_all_of(Node& node, std::span<const Expression> operands) const;
  bool equals(const Node& a, std::span<const Expression> operands, const Node& b) const;
  Expression combine(Kind kind, std::span<const Expression> parts);
  std::optional<std::u32string> literal(Expression a) const;
  void join_literals(std::vector<Expression>& alternatives);
  Expression derive(Expression a, char32_t code_point);
  Expression derive_concat(Expression a, char32_t code_point);
  Expression derive_multiple(const Node& n, char32_t code_point);

  std::vector<Node> nodes_;
  std::vector<Expression> operands_;
  // Hash table of all nodes: id + 1 of a node, or 0 in a free slot. The size is a power of two.
  std::vector<uint32_t> slots_;
  std::vector<CodePoints> sets_;
  Expression any_character_{};
  std::unordered_multimap<size_t, uint32_t> set_places_;
  std::vector<Trie> tries_;
  std::vector<Multiple> multiples_;
  std::unordered_map<uint64_t, Expression> derivatives_;
  Fuel fuel_{kCompileFuel};
};

}  // namespace nibble::grammar
