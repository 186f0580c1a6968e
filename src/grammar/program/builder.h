// Builds a Grammar from a graph of nodes, which may be recursive. Nodes that derive no text are removed, so
// that every text can be completed; adjacent parts without recursion become one automaton.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grammar/program/grammar.h"

namespace nibble::grammar {

enum class NodeId : uint32_t {};

// Thrown if the grammar derives no text.
struct NoText : InputError {
  using InputError::InputError;
};

class GrammarBuilder {
 public:
  // `encoding`: encoding of the nodes that text_of() and text() make: kUtf8 or kJsonContent.
  explicit GrammarBuilder(Encoding encoding = Encoding::kUtf8);

  Expressions& expressions() { return grammar_->expressions; }

  NodeId nothing();  // a node that derives no text
  NodeId empty_text();
  NodeId text_of(Expression expression);
  NodeId text(std::string_view utf8) { return text_of(expressions().text(utf8)); }
  NodeId one_of(std::vector<std::string> texts);  // any one of these texts
  // A quoted JSON string whose value is a text of the expression and has `counts` characters. If the
  // expression bounds the length, leave `counts` at its default.
  struct Counts {
    uint32_t min{0}, max{kUnlimited};
  };
  NodeId json_string(Expression expression, Encoding encoding, Counts counts);

  NodeId sequence(std::vector<NodeId> parts);
  NodeId choice(std::vector<NodeId> parts);
  NodeId repeat(NodeId part, uint32_t min, uint32_t max);

  struct JsonArray {
    std::vector<NodeId> first;   // items at index 0, 1, ...
    std::optional<NodeId> rest;  // all further items; absent: no further items are allowed
    uint32_t min{0}, max{kUnlimited};
    // If set, at least one item must be a needed one: `first[i]` at index i, or `rest` at a later index.
    struct Needed {
      std::vector<NodeId> first;
      std::optional<NodeId> rest;
    };
    std::optional<Needed> needed{};
  };
  NodeId json_array(JsonArray array);
  // Returns an array of these fixed texts (at most kMaxDifferent), each at most once.
  NodeId json_array_of_different(std::vector<std::string> texts, uint32_t min, uint32_t max);

  struct Member {
    std::string name;  // UTF-8
    bool is_required;
    NodeId value;
  };
  struct Undeclared {
    Expression name;
    NodeId value;
  };
  struct JsonObject {
    std::vector<Member> members;  // no two have the same name
    std::vector<Undeclared> undeclared;
    uint32_t min{0}, max{kUnlimited};
  };
  NodeId json_object(JsonObject object);

  // Returns a JSON object with one member: its key is `name`, its value a string that holds the text of
  // `node`. `node` must have the encoding kJsonContent.
  NodeId argument(const std::string& name, NodeId node);

  // Declares a node that define() defines later, for recursion.
  NodeId declare();
  void define(NodeId declared, NodeId as);

  // Throws NoText if `root` derives no text. The builder must not be used afterwards.
  std::shared_ptr<Grammar> build(NodeId root);
  // Whether the node derives a text. Valid once build() has started.
  bool is_productive(NodeId id) const { return productive_[static_cast<uint32_t>(id)]; }

  // Returns the automaton of an expression, made on first use. Compilers of languages use it for checks.
  Automaton& automaton_of(Expression expression, Encoding encoding);
  bool has_text(Expression expression) { return !automaton_of(expression, encoding_).is_empty(); }

 private:
  enum class Kind : uint8_t {
    kNothing,
    kEmptyText,
    kText,
    kOneOf,
    kJsonString,
    kSequence,
    kChoice,
    kRepeat,
    kArray,
    kDifferent,
    kObject,
    kReference
  };
  struct Node {
    Kind kind;
    Expression expression{};      // kText only
    uint32_t min{0}, max{0};      // kRepeat and kDifferent only
    std::vector<NodeId> parts{};  // children; kReference: the definition, once known
    uint32_t place{0};            // index in the table of its kind: texts_, arrays_, ...
  };

  NodeId add(Node node);
  const Node& node(NodeId id) const { return nodes_[static_cast<uint32_t>(id)]; }

  void find_productive();
  bool derives_text(uint32_t id);
  void find_nullable();
  bool derives_empty(const Node& node);
  // `first` and `rest` of an array. productive_item(): nullopt if the item is absent or derives no text.
  using Items = std::pair<const std::vector<NodeId>&, const std::optional<NodeId>&>;
  std::optional<NodeId> productive_item(Items items, size_t place) const;
  std::vector<bool> needed_places(const JsonArray& array) const;
  bool is_nullable(NodeId id) const { return nullable_[static_cast<uint32_t>(id)]; }
  void find_regular();
  std::optional<Expression> regular(NodeId id) const { return regular_[static_cast<uint32_t>(id)]; }

  // Each function appends operations that continue at `next`, and returns the index of the first of them.
  uint32_t emit(NodeId id, uint32_t next);
  uint32_t emit_sequence(const std::vector<NodeId>& parts, uint32_t next);
  uint32_t emit_choice(const std::vector<NodeId>& parts, uint32_t next);
  uint32_t emit_fork(const std::vector<uint32_t>& targets);
  uint32_t emit_repeat(const Node& node, uint32_t next);
  uint32_t emit_array(const JsonArray& array, uint32_t next);
  uint32_t emit_array_with_needed(const JsonArray& array, uint32_t next);
  uint32_t emit_list(List list, uint32_t next);
  uint32_t emit_object(const JsonObject& object, uint32_t next);
  uint32_t emit_match(uint32_t terminal, uint32_t next, bool keeps_counter = false);
  uint32_t punctuation(Expression expression, uint32_t next);  // keeps the counter of the list or object
  uint32_t add_op(Op op);
  uint32_t rule_of(NodeId id);

  uint32_t terminal_of(Expression expression, Encoding encoding, Counts counts);
  uint32_t place_of_automaton(Expression expression, Encoding encoding);
  uint32_t trie_of(std::vector<std::u32string>& texts);
  Expression blank_expression(std::string_view before);

  Encoding encoding_;
  std::shared_ptr<Grammar> grammar_;
  std::vector<Node> nodes_;
  std::vector<JsonArray> arrays_;
  std::vector<JsonObject> objects_;
  std::vector<std::vector<std::string>> texts_;
  size_t num_literal_bytes_{0};

  std::vector<bool> productive_, nullable_;
  // [node]: number of leading parts known to derive a text; used for nodes that need all of their parts.
  std::vector<uint32_t> num_passed_;
  std::vector<std::optional<Expression>> regular_;
  std::unordered_map<uint32_t, uint32_t> rules_;  // rule of each node that has one
  std::vector<NodeId> rules_to_emit_;
  std::map<std::pair<Expression, Encoding>, uint32_t> automata_;
  std::map<std::vector<std::pair<char32_t, char32_t>>, std::shared_ptr<const Alphabet>> alphabets_;
};

}  // namespace nibble::grammar
