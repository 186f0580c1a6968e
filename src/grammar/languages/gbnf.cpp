#include "grammar/languages/gbnf.h"

#include <cctype>
#include <map>

#include "grammar/languages/grammar_text.h"
#include "grammar/program/builder.h"

namespace nibble::grammar {
namespace {

class BnfParser {
 public:
  BnfParser(std::string_view text, bool is_gbnf)
      : text_(text, is_gbnf ? "gbnf" : "ebnf"), is_gbnf_(is_gbnf) {}

  Compiled compile() {
    skip_blanks(true);
    while (!text_.is_at_end()) rule();
    for (const auto& [name, rule] : rules_)
      if (!rule.is_defined)
        throw InputError("{}: rule '{}' is not defined; add '{} ::= ...'", is_gbnf_ ? "gbnf" : "ebnf", name,
                         name);
    const auto root = rules_.find("root");
    if (root == rules_.end())
      throw InputError("{}: rule 'root', the start of every text, is not defined; add it",
                       is_gbnf_ ? "gbnf" : "ebnf");
    const NodeId node = root->second.node;
    return {builder_.build(node), {}};
  }

 private:
  struct Rule {
    NodeId node;
    bool is_defined{false};
  };

  static bool is_name_part(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  }
  std::string_view name() {
    return text_.take_while([&](char c) { return is_name_part(c) || (!is_gbnf_ && c == '.'); });
  }

  void skip_blanks(bool over_lines) {
    for (;;) {
      text_.take_while(
          [&](char c) { return c == ' ' || c == '\t' || (over_lines && (c == '\r' || c == '\n')); });
      if (text_.peek() != '#') return;
      text_.skip_line();
    }
  }

  Rule& named(std::string_view name) {
    const auto known = rules_.find(name);
    if (known != rules_.end()) return known->second;
    return rules_.emplace(std::string(name), Rule{builder_.declare()}).first->second;
  }

  void rule() {
    const std::string_view name_of_rule = name();
    if (name_of_rule.empty()) text_.refuse("expected the name of a rule");
    if (text_.peek() == '[') text_.refuse("attributes of rules are not supported");
    skip_blanks(!is_gbnf_);
    if (!text_.take("::=")) text_.refuse("expected '::=' after the name of a rule");
    if (named(name_of_rule).is_defined) text_.refuse("this rule is already defined");
    named(name_of_rule).is_defined = true;
    const NodeId body = alternatives(0);
    builder_.define(named(name_of_rule).node, body);
    skip_blanks(!is_gbnf_);
    if (is_gbnf_ && !text_.is_at_end() && text_.peek() != '\n' && text_.peek() != '\r')
      text_.refuse("expected another part of the rule or the end of the line");
    skip_blanks(true);
    text_.take(";");
    skip_blanks(true);
  }

  NodeId alternatives(uint32_t depth) {
    if (depth > kMaxDepth) text_.refuse("groups are nested too deeply");
    std::vector<NodeId> parts;
    // In both languages, a rule continues if the next line begins with a bar.
    do {
      skip_blanks(true);
      parts.push_back(sequence(depth));
    } while (text_.take_behind([&] { skip_blanks(true); }, "|"));
    return builder_.choice(std::move(parts));
  }

  NodeId sequence(uint32_t depth) {
    std::vector<NodeId> parts;
    for (;;) {
      skip_blanks(depth > 0 || !is_gbnf_);
      const std::optional<NodeId> part = item(depth);
      if (!part) break;
      parts.push_back(repeated(*part));
    }
    return parts.empty() ? builder_.empty_text() : builder_.sequence(std::move(parts));
  }

  // Parses a part of a sequence. Returns nullopt at the end of the sequence.
  std::optional<NodeId> item(uint32_t depth) {
    Expressions& e = builder_.expressions();
    const char next = text_.peek();
    if (next == '"') {
      text_.skip(1);
      std::vector<Expression> characters;
      while (!text_.take("\"")) {
        if (text_.is_at_end() || text_.peek() == '\n') text_.refuse("a literal must be closed on its line");
        const char32_t c = character();
        characters.push_back(e.set({{c, c}}));
      }
      if (text_.peek() == 'i') text_.refuse("case-insensitive literals are not supported; write [Aa]");
      return builder_.text_of(e.concat(characters));
    }
    if (next == '[') return builder_.text_of(e.set(set()));
    if (next == '.') {
      text_.skip(1);
      return builder_.text_of(e.set(CodePoints::all()));
    }
    if (next == '(') {
      text_.skip(1);
      if (text_.peek() == '=') text_.refuse("lookahead is not supported");
      const NodeId group = alternatives(depth + 1);
      skip_blanks(true);
      if (!text_.take(")")) text_.refuse("expected ')'");
      return group;
    }
    if (next == '<' || (next == '!' && text_.rest().starts_with("!<")))
      text_.refuse("tokens are not supported; write their text");
    if (next == '/') text_.refuse("regular expressions are not supported here; write sets and repetitions");
    if (!is_name_part(next)) return std::nullopt;
    const GrammarText before = text_;
    const std::string_view called = name();
    if (text_.peek() == '(') text_.refuse("functions are not supported");
    // In EBNF a name followed by "::=" begins the next rule.
    if (!is_gbnf_) {
      const GrammarText behind = text_;
      skip_blanks(true);
      const bool is_definition = text_.rest().starts_with("::=");
      text_ = is_definition ? before : behind;
      if (is_definition) return std::nullopt;
    }
    return named(called).node;
  }

  NodeId repeated(NodeId part) {
    for (;;) {
      const GrammarText before = text_;
      skip_blanks(false);
      if (text_.take("*")) {
        part = builder_.repeat(part, 0, kUnlimited);
      } else if (text_.take("+")) {
        part = builder_.repeat(part, 1, kUnlimited);
      } else if (text_.take("?")) {
        part = builder_.repeat(part, 0, 1);
      } else if (text_.take("{")) {
        skip_blanks(false);
        const std::optional<uint32_t> min = text_.take_number();
        skip_blanks(false);
        std::optional<uint32_t> max = min;
        if (text_.take(",")) {
          skip_blanks(false);
          max = text_.take_number();
          if (!max) max = kUnlimited;
          skip_blanks(false);
        }
        if (!min || !text_.take("}")) text_.refuse("a count must be {m}, {m,} or {m,n}");
        if (*min > *max) text_.refuse("the minimum count exceeds the maximum");
        part = builder_.repeat(part, *min, *max);
      } else {
        text_ = before;
        return part;
      }
    }
  }

  CodePoints set() {
    text_.skip(1);
    const bool is_complement = text_.take("^");
    CodePoints found;
    while (!text_.take("]")) {
      if (text_.is_at_end() || text_.peek() == '\n') text_.refuse("a set must be closed on its line");
      const char32_t first = character();
      if (text_.peek() == '-' && !text_.rest().starts_with("-]")) {
        text_.skip(1);
        if (text_.is_at_end()) text_.refuse("a set must be closed on its line");
        const char32_t last = character();
        if (first > last) text_.refuse("a range ends before it begins");
        found.add(first, last);
      } else {
        found.add(first, first);
      }
    }
    return is_complement ? found.complement() : found;
  }

  char32_t character() {
    if (!text_.take("\\")) return text_.take_character();
    if (text_.is_at_end()) text_.refuse("expected an escape");
    return text_.take_escape("nrt");
  }

  GrammarText text_;
  bool is_gbnf_;
  GrammarBuilder builder_;
  std::map<std::string, Rule, std::less<>> rules_;
};

}  // namespace

Compiled compile_gbnf(std::string_view text) { return BnfParser(text, true).compile(); }
Compiled compile_ebnf(std::string_view text) { return BnfParser(text, false).compile(); }

}  // namespace nibble::grammar
