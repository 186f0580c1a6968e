// Builds a regular expression and a text from the input. The automaton must accept the text if and only if a
// simple matcher, which tries every possible match, accepts it. The automaton gets the text in three
// encodings: plain UTF-8, a whole JSON string, and the content of a JSON string, both in their canonical
// form. Then the token masks of a grammar with this expression are checked (grammar_masks.h).
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "grammar/automata/automaton.h"
#include "grammar/automata/remaining_lengths.h"
#include "grammar/program/builder.h"
#include "tests/fuzz/grammar_masks.h"
#include "text/utf8.h"

namespace nibble::grammar {
namespace {

// One operation of an expression, for the simple matcher. `a` and `b` are the indices of its operands, which
// come before it in the list of operations.
struct Tree {
  enum class Kind { kSet, kConcat, kAnyOf, kAllOf, kNot, kRepeat } kind;
  CodePoints set{};
  size_t a{0}, b{0};
  uint32_t min{0}, max{0};
};

// Ends of the matches that begin at one position of a text. Bit i means that a match ends before character i.
using Ends = uint32_t;
constexpr size_t kMostCharacters{24}, kMostTrees{40};

class Trying {
 public:
  Trying(std::span<const Tree> trees, std::u32string_view text) : trees_(trees), text_(text) {}
  bool matches(size_t tree) { return ends(tree, 0) >> text_.size() & 1; }

 private:
  Ends ends(size_t tree, size_t begin) {
    auto& [is_known, known] = known_[tree][begin];
    if (!is_known) known = find(trees_[tree], begin), is_known = true;
    return known;
  }
  Ends behind(size_t tree, Ends begins) {
    Ends found = 0;
    for (size_t begin = 0; begin <= text_.size(); ++begin)
      if (begins >> begin & 1) found |= ends(tree, begin);
    return found;
  }
  Ends find(const Tree& tree, size_t begin) {
    switch (tree.kind) {
      case Tree::Kind::kSet:
        return begin < text_.size() && tree.set.contains(text_[begin]) ? Ends{2} << begin : 0;
      case Tree::Kind::kConcat:
        return behind(tree.b, ends(tree.a, begin));
      case Tree::Kind::kAnyOf:
        return ends(tree.a, begin) | ends(tree.b, begin);
      case Tree::Kind::kAllOf:
        return ends(tree.a, begin) & ends(tree.b, begin);
      case Tree::Kind::kNot:
        return ~ends(tree.a, begin) & ((Ends{2} << text_.size()) - (Ends{1} << begin));
      case Tree::Kind::kRepeat:
        break;
    }
    Ends at = Ends{1} << begin, found = tree.min == 0 ? at : 0;
    for (uint32_t times = 1; times <= std::min<uint32_t>(tree.max, tree.min + kMostCharacters + 1); ++times) {
      at = behind(tree.a, at);
      if (times >= tree.min) found |= at;
    }
    return found;
  }

  std::span<const Tree> trees_;
  std::u32string_view text_;
  std::array<std::array<std::pair<bool, Ends>, kMostCharacters + 1>, kMostTrees> known_{};
};

// Characters of all UTF-8 lengths, and of every kind that a JSON string writes differently.
constexpr std::array<char32_t, 16> kCharacters{'a', 'b',  'c', '0',  'A',  ' ',    '"',    '\\',
                                               '/', '\n', 0x1, 0x7F, 0xE9, 0x20AC, 0x4E16, 0x1F600};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(data, size) {}
  bool is_at_end() const { return rest_.empty(); }
  uint8_t take() {
    if (rest_.empty()) return 0;
    const uint8_t byte = rest_[0];
    rest_ = rest_.subspan(1);
    return byte;
  }

 private:
  std::span<const uint8_t> rest_;
};

// The same operations for the simple matcher and for the automaton, in the same order.
struct Built {
  std::vector<Tree> trees;
  std::vector<Expression> expressions;
};

CodePoints set_of(uint8_t kind, Input& input) {
  const char32_t first = kCharacters[kind % 16];
  if (kind < 32) return {{first, first}};
  const char32_t second = kCharacters[input.take() % 16];
  const CodePoints range{{std::min(first, second), std::max(first, second)}};
  return kind < 48 ? range : range.complement();
}

// Reads operations in reverse Polish notation up to the end marker.
Built build(Input& input, Expressions& of) {
  Built built;
  std::vector<size_t> stack;
  const auto push = [&](Tree tree, Expression expression) {
    stack.push_back(built.trees.size());
    built.trees.push_back(std::move(tree));
    built.expressions.push_back(expression);
  };
  const auto pop = [&] {
    const size_t top = stack.back();
    stack.pop_back();
    return top;
  };
  while (!input.is_at_end() && built.trees.size() + stack.size() < kMostTrees) {
    const uint8_t op = input.take();
    if (op == 0xFF) break;
    if (op < 64 || stack.empty()) {
      const CodePoints set = set_of(op % 64, input);
      push({.kind = Tree::Kind::kSet, .set = set}, of.set(set));
    } else if (op < 96) {
      const size_t a = pop();
      const uint32_t min = op % 4, max = op / 4 % 4 == 3 ? kUnlimited : min + op / 4 % 4;
      push({.kind = Tree::Kind::kRepeat, .a = a, .min = min, .max = max},
           of.repeat(built.expressions[a], min, max));
    } else if (op < 112) {
      const size_t a = pop();
      push({.kind = Tree::Kind::kNot, .a = a}, of.complement(built.expressions[a]));
    } else if (stack.size() >= 2) {
      const size_t b = pop(), a = pop();
      const Expression ea = built.expressions[a], eb = built.expressions[b];
      if (op < 176)
        push({.kind = Tree::Kind::kConcat, .a = a, .b = b}, of.concat(ea, eb));
      else if (op < 224)
        push({.kind = Tree::Kind::kAnyOf, .a = a, .b = b}, of.any_of(ea, eb));
      else
        push({.kind = Tree::Kind::kAllOf, .a = a, .b = b}, of.all_of(ea, eb));
    }
  }
  while (stack.size() >= 2) {
    const size_t b = pop(), a = pop();
    push({.kind = Tree::Kind::kConcat, .a = a, .b = b},
         of.concat(built.expressions[a], built.expressions[b]));
  }
  return built;
}

bool automaton_accepts(Automaton& automaton, std::string_view bytes) {
  uint32_t state = automaton.is_empty() ? Automaton::kDead : Automaton::kStart;
  for (const char byte : bytes) {
    const bool is_final = state != Automaton::kDead && automaton.is_final(state);
    state = automaton.next(state, static_cast<uint8_t>(byte));
    NIBBLE_CHECK(!is_final || state == Automaton::kDead, "goes on behind its end");
  }
  return state != Automaton::kDead && automaton.accepts(state);
}

void check_automaton(const uint8_t* data, size_t size) {
  Input input(data, size);
  const uint8_t form = input.take();
  const bool is_argument = form & 128;
  GrammarBuilder builder(is_argument ? Encoding::kJsonContent : Encoding::kUtf8);
  const Built built = build(input, builder.expressions());
  if (built.trees.empty()) return;
  const Expression root = built.expressions.back();
  std::u32string text;
  while (!input.is_at_end() && text.size() < kMostCharacters) text += kCharacters[input.take() % 16];

  const bool matches = Trying(built.trees, text).matches(built.trees.size() - 1);
  std::string utf8;
  for (const char32_t c : text) append_utf8(utf8, c);
  const std::string json = nlohmann::json(utf8).dump();
  Automaton& plain = builder.automaton_of(root, Encoding::kUtf8);
  Automaton& quoted = builder.automaton_of(root, Encoding::kJsonString);
  NIBBLE_CHECK(automaton_accepts(plain, utf8) == matches, "{}", utf8);
  NIBBLE_CHECK(automaton_accepts(quoted, json) == matches, "{}", json);
  const std::string_view between_quotes = std::string_view(json).substr(1, json.size() - 2);
  Automaton& content = builder.automaton_of(root, Encoding::kJsonContent);
  NIBBLE_CHECK(automaton_accepts(content, between_quotes) == matches, "{}", json);
  NIBBLE_CHECK(!automaton_accepts(content, json));
  const auto length = static_cast<uint32_t>(text.size());
  NIBBLE_CHECK(!matches || plain.lengths().has_length(root, length, length));
  // A text that is cut inside a character is not valid, nor is a string without its closing quote.
  if (!utf8.empty() && (utf8.back() & 0x80))
    NIBBLE_CHECK(!automaton_accepts(plain, utf8.substr(0, utf8.size() - 1)));
  NIBBLE_CHECK(!automaton_accepts(quoted, json.substr(0, json.size() - 1)));

  const GrammarBuilder::Counts counts{form / 2 % 4u, form & 64 ? kUnlimited : form / 2 % 4u + form / 8 % 8u};
  const NodeId node = form & 1      ? builder.json_string(root, Encoding::kJsonString, counts)
                      : is_argument ? builder.argument("a", builder.text_of(root))
                                    : builder.text_of(root);
  check_masks({builder.build(node), {}}, size);
}

}  // namespace
}  // namespace nibble::grammar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    nibble::grammar::check_automaton(data, size);
  } catch (const nibble::InputError&) {
  }
  return 0;
}
