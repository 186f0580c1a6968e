#include "grammar/languages/lark.h"

#include <cctype>
#include <map>

#include "grammar/languages/gbnf.h"
#include "grammar/languages/grammar_text.h"
#include "grammar/languages/regex.h"
#include "grammar/program/builder.h"

namespace nibble::grammar {
namespace {

// Returns a terminal of Lark's grammar "common" as a regular expression (lark: lark/grammars/common.lark).
std::optional<std::string_view> lark_common_terminal(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kTerminals[]{
      {"DIGIT", "[0-9]"},
      {"HEXDIGIT", "[0-9A-Fa-f]"},
      {"INT", "[0-9]+"},
      {"SIGNED_INT", "[+-]?[0-9]+"},
      {"DECIMAL", R"([0-9]+\.[0-9]*|\.[0-9]+)"},
      {"FLOAT", R"([0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
      {"SIGNED_FLOAT", R"([+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))"},
      {"NUMBER", R"((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
      {"SIGNED_NUMBER", R"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
      {"ESCAPED_STRING", R"("(?:[^"\\\n]|\\[^\n])*")"},
      {"LCASE_LETTER", "[a-z]"},
      {"UCASE_LETTER", "[A-Z]"},
      {"LETTER", "[A-Za-z]"},
      {"WORD", "[A-Za-z]+"},
      {"CNAME", "[A-Za-z_][A-Za-z0-9_]*"},
      {"WS_INLINE", R"([ \t]+)"},
      {"WS", R"([ \t\f\r\n]+)"},
      {"CR", R"(\r)"},
      {"LF", R"(\n)"},
      {"NEWLINE", R"((?:\r?\n)+)"},
      {"SH_COMMENT", R"(#[^\n]*)"},
      {"CPP_COMMENT", R"(\/\/[^\n]*)"},
      {"SQL_COMMENT", R"(--[^\n]*)"},
      {"C_COMMENT", R"(\/\*(?:[^*]|\*+[^*\/])*\*+\/)"},
  };
  for (const auto& [known, regex] : kTerminals)
    if (known == name) return regex;
  return std::nullopt;
}

class LarkParser {
 public:
  LarkParser(std::string_view text, const std::string& argument)
      : text_(text, "lark"),
        argument_(argument),
        builder_(argument.empty() ? Encoding::kUtf8 : Encoding::kJsonContent) {}

  Compiled compile() {
    ignored_ = builder_.declare();
    for (skip_blanks(true); !text_.is_at_end(); skip_blanks(true)) statement();
    const NodeId skipped =
        ignore_.empty() ? builder_.empty_text() : builder_.repeat(builder_.choice(ignore_), 0, kUnlimited);
    builder_.define(ignored_, skipped);
    for (const auto& [name, symbol] : symbols_)
      if (!symbol.is_defined) throw InputError("lark: '{}' is not defined; define or import it", name);
    const auto start = symbols_.find("start");
    if (start == symbols_.end())
      throw InputError("lark: rule 'start', the start of every text, is not defined; add it");
    const NodeId root = builder_.sequence({ignored_, start->second.node});
    return {builder_.build(argument_.empty() ? root : builder_.argument(argument_, root)), {}};
  }

 private:
  struct Symbol {
    NodeId node;
    bool is_defined{false};
  };

  static bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  static bool is_terminal(std::string_view name) {
    const size_t first = name.find_first_not_of('_');
    return first != std::string_view::npos && std::isupper(static_cast<unsigned char>(name[first]));
  }
  // Takes a name. It may contain hyphens, as in llguidance; "a->b" is the name a followed by an alias.
  std::string_view name() {
    const std::string_view rest = text_.rest();
    text_.take_while(is_name_part);
    while (rest.size() > text_.rest().size() && text_.rest().size() > 1 && text_.peek() == '-' &&
           is_name_part(text_.rest()[1])) {
      text_.skip(1);
      text_.take_while(is_name_part);
    }
    return rest.substr(0, rest.size() - text_.rest().size());
  }
  // Whether {m}, {m,}, {m,n} or {,n} follows.
  bool is_at_count() const {
    if (text_.peek() != '{') return false;
    const size_t first = text_.rest().find_first_not_of(" \t", 1);
    return first != std::string_view::npos &&
           (text_.rest()[first] == ',' || std::isdigit(static_cast<unsigned char>(text_.rest()[first])));
  }

  void skip_blanks(bool over_lines) {
    for (;;) {
      text_.take_while(
          [&](char c) { return c == ' ' || c == '\t' || c == '\r' || (over_lines && c == '\n'); });
      if (text_.peek() != '#' && !text_.rest().starts_with("//")) return;
      text_.skip_line();
    }
  }

  Symbol& named(std::string_view name) {
    const auto known = symbols_.find(name);
    if (known != symbols_.end()) return known->second;
    return symbols_.emplace(std::string(name), Symbol{builder_.declare()}).first->second;
  }

  void define(std::string_view name, NodeId as) {
    if (named(name).is_defined) text_.refuse("the definition before this repeats a name");
    named(name).is_defined = true;
    builder_.define(named(name).node, as);
  }

  void statement() {
    if (text_.peek() == '%') return directive();
    while (text_.peek() == '?' || text_.peek() == '!') text_.skip(1);  // ? and ! affect only the syntax tree
    const std::string_view defined = name();
    if (defined.empty()) text_.refuse("expected the name of a rule or terminal");
    if (text_.peek() == '{') text_.refuse("templates are not supported");
    if (text_.peek() == '[') text_.refuse("attributes of rules are not supported");
    if (text_.take(".") && (text_.take("-"), !text_.take_number()))
      text_.refuse("a priority must be a number");
    skip_blanks(false);
    if (!text_.take(":")) text_.refuse("expected ':' after the name of a rule or terminal");
    is_in_terminal_ = is_terminal(defined);
    define(defined, alternatives(0));
    skip_blanks(false);
    if (!text_.is_at_end() && text_.peek() != '\n')
      text_.refuse("expected another part of the rule or the end of the line");
  }

  void directive() {
    if (text_.take("%ignore")) {
      skip_blanks(false);
      is_in_terminal_ = true;
      ignore_.push_back(alternatives(0));
    } else if (text_.take("%import")) {
      import();
    } else {
      text_.refuse("only the directives %ignore and %import common.NAME are supported");
    }
  }

  void import() {
    skip_blanks(false);
    if (!text_.take("common")) text_.refuse("only Lark's own grammar 'common' can be imported");
    skip_blanks(false);
    if (text_.take(".")) {
      const std::string_view imported = name();
      skip_blanks(false);
      std::string_view alias = imported;
      if (text_.take("->")) {
        skip_blanks(false);
        alias = name();
      }
      return import(imported, alias);
    }
    if (!text_.take("(")) text_.refuse("expected '.NAME' or '(NAME, NAME)'");
    do {
      skip_blanks(true);
      const std::string_view imported = name();
      import(imported, imported);
      skip_blanks(true);
    } while (text_.take(","));
    if (!text_.take(")")) text_.refuse("expected ')'");
  }

  void import(std::string_view imported, std::string_view alias) {
    const auto regex = lark_common_terminal(imported);
    if (!regex || alias.empty()) text_.refuse("the name before this is not in Lark's grammar 'common'");
    define(alias, builder_.text_of(regex_expression(builder_.expressions(), *regex, {}, "lark")));
  }

  NodeId alternatives(uint32_t depth) {
    if (depth > kMaxDepth) text_.refuse("groups are nested too deeply");
    std::vector<NodeId> parts;
    do {
      parts.push_back(sequence(depth));
      if (text_.take("->")) {
        skip_blanks(false);
        if (name().empty()) text_.refuse("expected the name of an alias");
      }
    } while (text_.take_behind([&] { skip_blanks(true); }, "|"));
    return builder_.choice(std::move(parts));
  }

  NodeId sequence(uint32_t depth) {
    std::vector<NodeId> parts;
    for (;;) {
      skip_blanks(depth > 0);
      const std::optional<NodeId> part = item(depth);
      if (!part) break;
      parts.push_back(repeated(*part));
    }
    return parts.empty() ? builder_.empty_text() : builder_.sequence(std::move(parts));
  }

  // A terminal in a rule may be followed by ignored text; a terminal within a terminal may not.
  NodeId terminal(NodeId node) { return is_in_terminal_ ? node : builder_.sequence({node, ignored_}); }

  // Parses a part of a sequence. Returns nullopt at the end of the sequence.
  std::optional<NodeId> item(uint32_t depth) {
    const char next = text_.peek();
    if (next == '(' || next == '[') {
      text_.skip(1);
      const NodeId group = alternatives(depth + 1);
      skip_blanks(true);
      if (!text_.take(next == '(' ? ")" : "]")) text_.refuse(next == '(' ? "expected ')'" : "expected ']'");
      return next == '(' ? group : builder_.repeat(group, 0, 1);
    }
    if (next == '"') return terminal(builder_.text_of(literal()));
    if (next == '/') return terminal(builder_.text_of(regex()));
    if (next == '<') text_.refuse("tokens are not supported; write their text");
    if (next == '%' || next == '&' || next == '~') text_.refuse("this is not supported");
    if (!is_name_part(next)) return std::nullopt;
    const std::string_view called = name();
    if (text_.peek() == '{' && !is_at_count()) text_.refuse("templates are not supported");
    if (is_in_terminal_ && !is_terminal(called)) text_.refuse("a terminal can't refer to a rule");
    return is_terminal(called) ? terminal(named(called).node) : named(called).node;
  }

  NodeId repeated(NodeId part) {
    if (text_.take("*")) return builder_.repeat(part, 0, kUnlimited);
    if (text_.take("+")) return builder_.repeat(part, 1, kUnlimited);
    if (text_.take("?")) return builder_.repeat(part, 0, 1);
    const GrammarText before = text_;
    skip_blanks(false);
    std::optional<uint32_t> min, max;
    if (text_.take("~")) {
      min = max = number();
      if (text_.take("..")) max = number();
    } else if (is_at_count()) {
      text_.skip(1);
      min = max = number();
      if (text_.take(",")) {
        if (!min) min = 0;
        max = number();
        if (!max) max = kUnlimited;
      }
      if (!text_.take("}")) text_.refuse("expected '}' after a count");
    } else {
      text_ = before;
      return part;
    }
    if (!min || !max || *min > *max)
      text_.refuse("a count must be {m}, {m,}, {m,n}, {,n}, ~m or ~m..n, with m at most n");
    return builder_.repeat(part, *min, *max);
  }

  std::optional<uint32_t> number() {
    skip_blanks(false);
    const std::optional<uint32_t> found = text_.take_number();
    skip_blanks(false);
    return found;
  }

  // Reads "..." or "..."i, or a range.
  Expression literal() {
    const std::u32string first = quoted();
    Expressions& e = builder_.expressions();
    if (text_.rest().starts_with("..")) {
      text_.skip(2);
      const std::u32string last = text_.peek() == '"' ? quoted() : U"";
      if (first.size() != 1 || last.size() != 1 || first > last)
        text_.refuse("a range must be two single characters in order, such as \"a\"..\"z\"");
      return e.set({{first[0], last[0]}});
    }
    const bool ignores_case =
        text_.peek() == 'i' && (text_.rest().size() < 2 || !is_name_part(text_.rest()[1]));
    if (ignores_case) text_.skip(1);
    std::vector<Expression> parts;
    for (const char32_t c : first) {
      CodePoints one{{c, c}};
      if (ignores_case) one.add_other_case();
      parts.push_back(e.set(one));
    }
    return e.concat(parts);
  }

  std::u32string quoted() {
    text_.skip(1);
    std::u32string found;
    while (!text_.take("\"")) {
      if (text_.is_at_end() || text_.peek() == '\n') text_.refuse("a literal must be closed on its line");
      if (!text_.take("\\")) {
        found += text_.take_character();
        continue;
      }
      if (text_.is_at_end()) text_.refuse("a literal must be closed on its line");
      found += text_.take_escape("nrtfv0");
    }
    return found;
  }

  Expression regex() {
    text_.skip(1);
    std::string source;
    while (!text_.take("/")) {
      if (text_.is_at_end() || text_.peek() == '\n')
        text_.refuse("a regular expression must be closed on its line");
      const bool is_escape = text_.peek() == '\\' && text_.rest().size() > 1;
      const size_t num_bytes = is_escape ? 1 + first_character(text_.rest().substr(1)).num_bytes : 1;
      source += text_.rest().substr(0, num_bytes);
      text_.skip(num_bytes);
    }
    RegexOptions options;
    for (const char flag :
         text_.take_while([](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; })) {
      if (flag == 'i') {
        options.ignores_case = true;
      } else if (flag == 's') {
        options.dot_is_anything = true;
      } else if (flag != 'u') {
        text_.refuse("only the regular-expression flags i, s and u are supported");
      }
    }
    return regex_expression(builder_.expressions(), source, options, "lark");
  }

  GrammarText text_;
  const std::string& argument_;
  GrammarBuilder builder_;
  std::map<std::string, Symbol, std::less<>> symbols_;
  NodeId ignored_{};
  std::vector<NodeId> ignore_;
  bool is_in_terminal_{false};
};

}  // namespace

Compiled compile_lark(std::string_view text, const std::string& argument) {
  return LarkParser(text, argument).compile();
}

Compiled compile_ebnf_or_lark(std::string_view text) {
  return text.find("::=") == std::string_view::npos ? compile_lark(text) : compile_ebnf(text);
}

}  // namespace nibble::grammar
