#include "server/service/constraint.h"

#include <memory>
#include <optional>

#include "core/errors/error.h"
#include "grammar/matching/text_constraint.h"
#include "harmony/turn_constraint.h"
#include "server/http/http_error.h"
#include "server/service/grammar_shelf.h"

namespace nibble::server {
namespace {

using grammar::Language;
using grammar::Source;

[[noreturn]] void refuse(const std::string& field, const InputError& error) {
  HttpError refusal(400, "{}: {}", field, error.what());
  refusal.param = field;
  throw refusal;
}

GrammarShelf& shelf_of(Service& service) {
  if (!service.grammars) service.grammars = std::make_unique<GrammarShelf>(*service.model->tokenizer);
  return *service.grammars;
}

// Compiles the output format; null: any text. Adds parts that can't be enforced to params.ignored.
std::shared_ptr<grammar::Grammar> body_of(GrammarShelf& shelf, GenerationParams& params) {
  if (!params.format.source) return nullptr;
  try {
    const grammar::Compiled compiled = shelf.get(*params.format.source);
    for (const std::string& warning : compiled.warnings) params.ignored.add(params.format.name(), warning);
    return compiled.grammar;
  } catch (const InputError& error) {
    refuse(params.format.name(), error);
  }
}

// Compiles the grammar of a tool's arguments. Parts of a schema that can't be enforced are an error if the
// tool is strict, otherwise added to `ignored`.
std::shared_ptr<grammar::Grammar> arguments_of(GrammarShelf& shelf, const OfferedTool& tool,
                                               IgnoredFields& ignored) {
  if (tool.input) try {
      return shelf.get(*tool.input).grammar;
      // Continue without the grammar: the prompt still describes the format.
    } catch (const InputError& error) {
      ignored.add("tools." + tool.name + ".format", error.what());
    }
  if (!tool.parameters) return shelf.get({Language::kJsonObject, "", false}).grammar;
  try {
    const grammar::Compiled compiled = shelf.get({.language = Language::kJsonSchema,
                                                  .text = *tool.parameters,
                                                  .is_strict = tool.is_strict,
                                                  .drops_unenforceable = !tool.is_strict});
    for (const std::string& warning : compiled.warnings) ignored.add("tools." + tool.name, warning);
    return compiled.grammar;
  } catch (const InputError& error) {
    if (tool.is_strict) refuse("tools." + tool.name + ".parameters", error);
    ignored.add("tools." + tool.name, error.what());
    return shelf.get({Language::kJsonObject, "", false}).grammar;
  }
}

// Returns the limit on reasoning tokens; null if max_tokens ends the answer before that limit.
std::optional<int> reasoning_limit(const GenerationParams& params) {
  if (params.max_tokens && params.max_reasoning_tokens && *params.max_tokens <= *params.max_reasoning_tokens)
    return std::nullopt;
  return params.max_reasoning_tokens;
}

harmony::TurnRules rules_of(GrammarShelf& shelf, GenerationParams& params,
                            const std::vector<OfferedTool>& offered) {
  harmony::TurnRules rules;
  rules.must_call = params.must_call;
  rules.max_reasoning_tokens = reasoning_limit(params);
  rules.body = body_of(shelf, params);
  for (const OfferedTool& tool : offered)
    if (tool.may_be_called)
      rules.tools.push_back({tool.space + "." + tool.name, arguments_of(shelf, tool, params.ignored)});
  return rules;
}

}  // namespace

asio::awaitable<void> constrain_chat(Service& service, GenerationParams& params,
                                     const std::vector<OfferedTool>& offered, const ChatPrompt& prompt,
                                     std::vector<GenerationRequest>& requests) {
  const bool has_budget = reasoning_limit(params).has_value();
  if (!params.format.source && offered.empty() && !has_budget) co_return;
  // With ignore_eos the text continues after the end token, where a constraint allows no token.
  if (params.ignore_eos) {
    if (!params.must_call && !has_budget) co_return;
    throw HttpError(400, "ignore_eos must be false if {}",
                    params.must_call ? "a tool must be called" : "reasoning has a token budget");
  }
  GrammarShelf& shelf = shelf_of(service);
  co_await offload_if(service, true, [&] {
    const auto constraint = std::make_shared<harmony::TurnConstraint>(
        std::make_shared<const harmony::TurnGrammar>(rules_of(shelf, params, offered), shelf.vocabulary()));
    std::vector<TokenId> begun = prompt.begun;
    begun.insert(begun.end(), prompt.begun_text.begin(), prompt.begun_text.end());
    constraint->accept_begun(begun);
    for (GenerationRequest& request : requests) request.constraint = constraint;
  });
}

asio::awaitable<void> constrain_text(Service& service, GenerationParams& params,
                                     std::vector<GenerationRequest>& requests) {
  if (!params.format.source) co_return;
  GrammarShelf& shelf = shelf_of(service);
  co_await offload_if(service, true, [&] {
    const auto constraint = std::make_shared<grammar::TextConstraint>(
        body_of(shelf, params), shelf.vocabulary(), service.model->stop_tokens);
    for (GenerationRequest& request : requests) request.constraint = constraint;
  });
}

}  // namespace nibble::server
