#include "cli/terminal/answer_format.h"

#include "core/error.h"
#include "core/log.h"
#include "core/mapped_file.h"
#include "grammar/languages/source.h"
#include "grammar/limits.h"
#include "grammar/matching/text_constraint.h"
#include "harmony/control_tokens.h"
#include "harmony/turn_constraint.h"

namespace nibble::cli {
namespace {

std::string text_in(const std::string& path) { return read_text_file(path, grammar::kMaxSourceBytes); }

std::optional<grammar::Source> source_of(const Settings& settings) {
  if (settings.json_schema && settings.grammar)
    throw InputError("--json-schema and --grammar exclude each other");
  if (settings.json_schema)
    return grammar::Source{grammar::Language::kJsonSchema, text_in(*settings.json_schema), false};
  if (settings.grammar) return grammar::Source{grammar::Language::kGbnf, text_in(*settings.grammar), false};
  return std::nullopt;
}

// Compiles the file of --json-schema or --grammar; returns null if neither flag is given.
std::shared_ptr<grammar::Grammar> grammar_of(const Settings& settings) {
  const std::optional<grammar::Source> source = source_of(settings);
  if (!source) return nullptr;
  const std::string& path = settings.json_schema ? *settings.json_schema : *settings.grammar;
  grammar::Compiled compiled;
  try {
    compiled = grammar::compile(*source);
  } catch (const InputError& error) {
    throw InputError("{}: {}", path, error.what());
  }
  for (const std::string& warning : compiled.warnings) log::warn("{}: {}", path, warning);
  return compiled.grammar;
}

}  // namespace

std::optional<harmony::ResponseFormat> response_format(const Settings& settings) {
  if (!settings.json_schema) return std::nullopt;
  return harmony::ResponseFormat{
      .name = "response", .description = {}, .schema = text_in(*settings.json_schema)};
}

std::shared_ptr<const grammar::Constraint> AnswerFormat::constraint(const Settings& settings, bool is_chat) {
  const bool has_budget = settings.reasoning_budget.value_or(-1) >= 0;
  if (has_budget && !is_chat) throw InputError("--reasoning-budget does not work with --raw");
  harmony::TurnRules rules;
  rules.body = grammar_of(settings);
  if (!rules.body && !has_budget) return nullptr;
  if (!vocabulary_) vocabulary_.emplace(tokenizer_);
  if (!is_chat)
    return std::make_shared<grammar::TextConstraint>(rules.body, *vocabulary_,
                                                     harmony::stop_tokens(tokenizer_));
  if (has_budget) rules.max_reasoning_tokens = settings.reasoning_budget;
  return std::make_shared<harmony::TurnConstraint>(
      std::make_shared<const harmony::TurnGrammar>(std::move(rules), *vocabulary_));
}

}  // namespace nibble::cli
