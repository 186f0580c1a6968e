#include "turn/answer_format.h"

#include <utility>

#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/program/log.h"
#include "grammar/limits.h"
#include "grammar/matching/text_constraint.h"
#include "harmony/control_tokens.h"
#include "harmony/turn_constraint.h"

namespace nibble {
namespace {

std::string text_in(const std::string& path) { return read_text_file(path, grammar::kMaxSourceBytes); }

// Compiles the form's source; null if it has none.
std::shared_ptr<grammar::Grammar> grammar_of(const AnswerForm& form) {
  if (!form.source) return nullptr;
  const std::string prefix = form.origin.empty() ? "" : form.origin + ": ";
  grammar::Compiled compiled;
  try {
    compiled = grammar::compile(*form.source);
  } catch (const InputError& error) {
    throw InputError("{}{}", prefix, error.what());
  }
  for (const std::string& warning : compiled.warnings) log::warn("{}{}", prefix, warning);
  return compiled.grammar;
}

}  // namespace

AnswerForm answer_form(const Settings& settings) {
  if (settings.json_schema && settings.grammar)
    throw InputError("--json-schema and --grammar exclude each other");
  AnswerForm form;
  if (settings.json_schema) {
    form.origin = *settings.json_schema;
    form.source = {grammar::Language::kJsonSchema, text_in(form.origin)};
  } else if (settings.grammar) {
    form.origin = *settings.grammar;
    form.source = {grammar::Language::kGbnf, text_in(form.origin)};
  }
  if (settings.reasoning_budget.value_or(-1) >= 0) form.max_reasoning_tokens = settings.reasoning_budget;
  return form;
}

std::optional<harmony::ResponseFormat> response_format(const AnswerForm& form) {
  if (!form.source || form.source->language != grammar::Language::kJsonSchema) return std::nullopt;
  return harmony::ResponseFormat{.name = "response", .description = {}, .schema = form.source->text};
}

std::shared_ptr<const grammar::Constraint> AnswerFormat::constraint(const AnswerForm& form, bool is_chat,
                                                                    std::vector<harmony::TurnTool> tools) {
  if (form.max_reasoning_tokens && !is_chat) throw InputError("--reasoning-budget does not work with --raw");
  harmony::TurnRules rules;
  rules.body = grammar_of(form);
  rules.max_reasoning_tokens = form.max_reasoning_tokens;
  if (!rules.body && !rules.max_reasoning_tokens) return nullptr;
  if (!vocabulary_) vocabulary_.emplace(tokenizer_);
  if (!is_chat)
    return std::make_shared<grammar::TextConstraint>(rules.body, *vocabulary_,
                                                     harmony::stop_tokens(tokenizer_));
  rules.tools = std::move(tools);
  return std::make_shared<harmony::TurnConstraint>(
      std::make_shared<const harmony::TurnGrammar>(std::move(rules), *vocabulary_));
}

}  // namespace nibble
