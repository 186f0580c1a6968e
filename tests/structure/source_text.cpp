#include "tests/structure/source_text.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <sstream>

#include "tests/folders.h"

namespace nibble::test {
namespace {

enum class Kind { kCode, kComment, kLiteral };

bool is_word(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_'; }

// Returns the end of the token that starts at `at`: a comment, a literal or one character of code.
size_t end_of_token(std::string_view source, size_t at, Kind& kind) {
  const auto end_of = [&](std::string_view mark, size_t from) {
    const size_t found = source.find(mark, from);
    return found == std::string_view::npos ? source.size() : found + mark.size();
  };
  kind = Kind::kComment;
  if (source.substr(at, 2) == "//") return std::min(source.find('\n', at), source.size());
  if (source.substr(at, 2) == "/*") return end_of("*/", at + 2);
  kind = Kind::kLiteral;
  if (source.substr(at, 2) == "R\"") {
    const size_t open = source.find('(', at);
    const std::string close = ")" + std::string(source.substr(at + 2, open - at - 2)) + "\"";
    return end_of(close, open);
  }
  const char quote = source[at];
  const bool separates_digits = quote == '\'' && at > 0 && is_word(source[at - 1]);
  if (quote == '"' || (quote == '\'' && !separates_digits)) {
    size_t end = at + 1;
    while (end < source.size() && source[end] != quote && source[end] != '\n')
      end += source[end] == '\\' ? 2 : 1;
    return std::min(end + 1, source.size());
  }
  kind = Kind::kCode;
  return at + 1;
}

// Returns the source with all tokens blanked out except those of one kind.
std::string only(Kind wanted, std::string_view source) {
  std::string text(source);
  for (size_t at = 0; at < source.size();) {
    Kind kind;
    const size_t end = end_of_token(source, at, kind);
    if (kind != wanted)
      for (size_t i = at; i < end; ++i)
        if (text[i] != '\n') text[i] = ' ';
    at = end;
  }
  return text;
}

// Blanks out preprocessor directives and their continuation lines.
void blank_directives(std::string& code) {
  bool goes_on = false;
  for (size_t at = 0; at < code.size();) {
    const size_t end = std::min(code.find('\n', at), code.size());
    const size_t first = code.find_first_not_of(" \t", at);
    if (goes_on || (first < end && code[first] == '#')) {
      goes_on = end > at && code[end - 1] == '\\';
      std::fill(code.begin() + static_cast<ptrdiff_t>(at), code.begin() + static_cast<ptrdiff_t>(end), ' ');
    }
    at = end + 1;
  }
}

size_t end_of_braces(std::string_view code, size_t open) {
  int depth = 0;
  for (size_t i = open; i < code.size(); ++i) {
    if (code[i] == '{') ++depth;
    if (code[i] == '}' && --depth == 0) return i + 1;
  }
  return code.size();
}

size_t end_of_angles(std::string_view head, size_t open) {
  int depth = 0, parens = 0;
  for (size_t i = open; i < head.size(); ++i) {
    if (head[i] == '(') ++parens;
    if (head[i] == ')') --parens;
    if (parens > 0) continue;
    if (head[i] == '<') ++depth;
    if (head[i] == '>' && --depth == 0) return i + 1;
  }
  return head.size();
}

size_t end_of_parens(std::string_view head, size_t open) {
  int depth = 0;
  for (size_t i = open; i < head.size(); ++i) {
    depth += head[i] == '(' ? 1 : head[i] == ')' ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return head.size();
}

// Returns the signature before a brace, without `template <...>` and without macro uses above it. Moves
// `first` to the signature's beginning.
std::string_view signature(std::string_view code, size_t& first, size_t brace) {
  for (;;) {
    while (first < brace && std::isspace(static_cast<unsigned char>(code[first]))) ++first;
    const std::string_view head = code.substr(first, brace - first);
    if (head.starts_with("template"))
      first += end_of_angles(head, head.find('<'));
    else if (head.starts_with("NIBBLE_") && head.find('(') != std::string_view::npos)
      first += end_of_parens(head, head.find('('));
    else
      return head;
  }
}

bool opens_scope(std::string_view head) {
  static const std::regex kScope(R"(^(inline\s+)?(namespace|struct|class|union|enum|extern)\b)");
  return std::regex_search(head.begin(), head.end(), kScope);
}

// Returns the position of the parenthesis that opens a function's parameters; nullopt for other heads.
std::optional<size_t> parameters_of(std::string_view head) {
  int depth = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    if (head[i] == '=' && depth == 0 && !head.substr(0, i).ends_with("operator") && head.find("operator") > i)
      return std::nullopt;  // an initialiser
    if (head[i] != '(') continue;
    const std::string_view before = head.substr(0, head.find_last_not_of(" \n", i ? i - 1 : 0) + 1);
    const bool is_attribute = before.ends_with("alignas") || before.ends_with("__launch_bounds__") ||
                              before.ends_with("__cluster_dims__") || before.ends_with("decltype") ||
                              before.ends_with("noexcept") || before.ends_with("requires");
    if (!is_attribute) return before.ends_with("operator") ? head.find('(', i + 1) : i;
    i = end_of_parens(head, i) - 1;
  }
  return std::nullopt;
}

int count_parameters(std::string_view parameters) {
  if (parameters.find_first_not_of(" \n") == std::string_view::npos) return 0;
  int depth = 0, count = 1;
  for (const char letter : parameters) {
    if (letter == '(' || letter == '<' || letter == '{' || letter == '[') ++depth;
    if (letter == ')' || letter == '>' || letter == '}' || letter == ']') --depth;
    if (letter == ',' && depth == 0) ++count;
  }
  return count;
}

// Whether a brace initialises a member in a constructor's list, as in `A::A() : b_{1} {`.
bool initialises_member(std::string_view head, size_t parameters) {
  const std::string_view rest = head.substr(end_of_parens(head, parameters));
  const size_t colon = rest.find(':');
  if (colon == std::string_view::npos || rest.substr(colon, 2) == "::") return false;
  const size_t last = rest.find_last_not_of(" \n");
  return is_word(rest[last]) || rest[last] == '>';
}

std::string name_before(std::string_view head, size_t parameters) {
  size_t first = head.find("operator");
  if (first >= parameters) {
    const size_t last = head.find_last_not_of(" \n", parameters - 1);
    first = last + 1;
    while (first > 0 && (is_word(head[first - 1]) || head[first - 1] == ':' || head[first - 1] == '~'))
      --first;
  }
  std::string name(head.substr(first, parameters - first));
  name.erase(name.find_last_not_of(" \n") + 1);
  return name;
}

int lines_in(std::string_view text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

}  // namespace

std::string code_of(std::string_view source) { return only(Kind::kCode, source); }
std::string comments_of(std::string_view source) { return only(Kind::kComment, source); }

std::vector<FunctionText> functions_of(std::string_view source) {
  std::string code = code_of(source);
  blank_directives(code);
  const std::string_view view = code;
  std::vector<FunctionText> functions;
  size_t first = 0;  // start of the declaration to which the next brace belongs
  for (size_t i = 0; i < view.size(); ++i) {
    if (view[i] == ';' || view[i] == '}') first = i + 1;
    if (view[i] == ':' && view.substr(0, i).ends_with("public")) first = i + 1;
    if (view[i] == ':' && view.substr(0, i).ends_with("private")) first = i + 1;
    if (view[i] == '(') i = end_of_parens(view, i) - 1;  // default arguments may contain braces
    if (view[i] != '{') continue;
    const std::string_view head = signature(view, first, i);
    if (opens_scope(head)) {
      first = i + 1;
      continue;
    }
    const size_t end = end_of_braces(view, i);
    const auto parameters = parameters_of(head);
    if (!parameters) {  // not a function: the initialiser of a variable
      i = end - 1;
    } else if (initialises_member(head, *parameters)) {
      i = end - 1;
      continue;
    } else {
      const size_t close = end_of_parens(head, *parameters);
      functions.push_back({name_before(head, *parameters), 1 + lines_in(view.substr(0, first)),
                           1 + lines_in(view.substr(first, end - first)),
                           count_parameters(head.substr(*parameters + 1, close - *parameters - 2))});
      i = end - 1;
    }
    first = end;
  }
  return functions;
}

std::vector<SourceFile> source_files(std::string_view folder) {
  std::vector<SourceFile> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path(folder))) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    files.push_back({std::filesystem::relative(entry.path(), source_path()), text.str()});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace nibble::test
