#include "grammar/languages/regex.h"

#include "core/errors/error.h"
#include "grammar/languages/regex_parser.h"
#include "grammar/program/builder.h"
#include "text/utf8.h"

namespace nibble::grammar {

Expression regex_expression(Expressions& expressions, std::string_view regex, const RegexOptions& options,
                            const std::string& origin) {
  return RegexParser(expressions, regex, options, origin).parse();
}

Compiled compile_regex(std::string_view regex, const std::string& argument) {
  GrammarBuilder builder(argument.empty() ? Encoding::kUtf8 : Encoding::kJsonContent);
  const NodeId text = builder.text_of(regex_expression(builder.expressions(), regex, {}, "regex"));
  return {builder.build(argument.empty() ? text : builder.argument(argument, text)), {}};
}

Compiled compile_choice(const std::vector<std::string>& texts) {
  if (texts.empty()) throw InputError("choice: the list is empty; list at least one text");
  for (const std::string& text : texts)
    if (well_formed_prefix(text) != text.size()) throw InputError("choice: a text is not valid UTF-8");
  GrammarBuilder builder;
  return {builder.build(builder.one_of(texts)), {}};
}

}  // namespace nibble::grammar
