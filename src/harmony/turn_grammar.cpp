#include "harmony/turn_grammar.h"

#include <algorithm>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "grammar/languages/one_line.h"
#include "grammar/languages/regex.h"
#include "grammar/program/builder.h"
#include "text/utf8.h"

namespace nibble::harmony {
namespace {

using grammar::GrammarBuilder;
using grammar::NodeId;

// Lists all names in one node, so that even thousands of tools stay below the limit on fixed texts.
NodeId recipient(GrammarBuilder& builder, const std::vector<std::string>& names) {
  return builder.sequence({builder.text(" to="), builder.one_of(names)});
}

NodeId thinking_channel(GrammarBuilder& builder) {
  return builder.choice({builder.text("analysis"), builder.text("commentary")});
}

// Derives the text after channel and recipient in a call's header. After the text " ", <|constrain|> follows.
NodeId end_of_call_header(GrammarBuilder& builder) {
  return builder.choice(
      {builder.empty_text(), builder.text(" "), builder.text(" json"), builder.text(" code")});
}

TurnGrammar::Text author_text(const std::vector<std::string>& names) {
  GrammarBuilder builder;
  const NodeId assistant = builder.text("assistant");
  if (names.empty()) return builder.build(assistant);
  return builder.build(builder.choice({assistant, builder.sequence({assistant, recipient(builder, names)})}));
}

TurnGrammar::Text channel_text(const std::vector<std::string>& names, const TurnRules& rules,
                               bool has_reasoning) {
  GrammarBuilder builder;
  std::vector<NodeId> forms;
  if (has_reasoning) forms.push_back(builder.text("analysis"));
  if (!rules.body) forms.push_back(builder.text("commentary"));
  if (!names.empty())
    forms.push_back(builder.sequence(
        {thinking_channel(builder), recipient(builder, names), end_of_call_header(builder)}));
  if (!rules.must_call) {
    forms.push_back(builder.text("final"));
    forms.push_back(builder.text("final "));  // <|constrain|>json follows
  }
  return builder.build(builder.choice(forms));
}

TurnGrammar::Text channel_of_call_text() {
  GrammarBuilder builder;
  return builder.build(builder.sequence({thinking_channel(builder), end_of_call_header(builder)}));
}

// Returns the tools' names, sorted. Refuses white space in a name: a header's words end there.
std::vector<std::string> checked_names(const TurnRules& rules) {
  std::vector<std::string> names;
  for (const TurnTool& tool : rules.tools) {
    const std::string& name = tool.recipient;
    if (name.empty() || name.find_first_of(" \t\n\f\r") != std::string::npos ||
        well_formed_prefix(name) != name.size())
      throw InputError("'{}' can't be called: a tool name must be valid UTF-8 without white space",
                       grammar::one_line(name));
    names.push_back(name);
  }
  std::ranges::sort(names);
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw InputError("two tools are named '{}'; tool names must be unique", grammar::one_line(*twice));
  if (rules.must_call && names.empty())
    throw InputError("a tool call is required, but there are no tools; add at least one");
  return names;
}

}  // namespace

TurnGrammar::TurnGrammar(TurnRules turn_rules, const grammar::VocabularyTrie& turn_vocabulary)
    : rules(std::move(turn_rules)), vocabulary(turn_vocabulary), control(turn_vocabulary.tokenizer()) {
  const std::vector<std::string> names = checked_names(rules);
  author = author_text(names);
  channel = channel_text(names, rules, /*has_reasoning=*/true);
  if (rules.max_reasoning_tokens)
    channel_behind_reasoning = channel_text(names, rules, /*has_reasoning=*/false);
  if (!rules.must_call) type_of_final = grammar::compile_choice({"json"}).grammar;
  if (names.empty()) return;
  channel_of_call = channel_of_call_text();
  type_of_call = grammar::compile_choice({"json", "code"}).grammar;
}

const TurnTool& TurnGrammar::tool(std::string_view recipient) const {
  const auto found = std::ranges::find(rules.tools, recipient, &TurnTool::recipient);
  NIBBLE_CHECK(found != rules.tools.end(), "{}", recipient);
  return *found;
}

}  // namespace nibble::harmony
