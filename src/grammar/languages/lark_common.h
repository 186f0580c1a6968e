// The terminals of Lark's grammar "common", as regular expressions (lark: lark/grammars/common.lark).
#pragma once

#include <optional>
#include <string_view>

namespace nibble::grammar {

inline std::optional<std::string_view> lark_common_terminal(std::string_view name) {
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

}  // namespace nibble::grammar
