#include <algorithm>

#include "grammar/languages/schema/compiler.h"

namespace nibble::grammar {
namespace {

constexpr size_t kMaxUndeclaredGroups{32};

}  // namespace

NodeId SchemaCompiler::arrays(const Branch& branch, const Facts& facts) {
  ArrayFacts arrays = facts.arrays;
  if (arrays.unique != nullptr && arrays.most() > 1) return different_items(branch, arrays);
  GrammarBuilder::JsonArray array{.first = {}, .rest = std::nullopt, .min = arrays.min, .max = arrays.max};
  while (arrays.first.size() < arrays.needed_from) arrays.first.push_back(*arrays.rest);
  for (const Terms& item : arrays.first) array.first.push_back(value(item));
  if (arrays.rest) array.rest = value(*arrays.rest);
  if (arrays.num_needed > 0) array.needed = needed_item(arrays);
  return builder_.json_array(std::move(array));
}

GrammarBuilder::JsonArray::Needed SchemaCompiler::needed_item(const ArrayFacts& arrays) {
  if (arrays.num_needed > 1) leave_out(*arrays.needed_of, arrays.needed_by);
  GrammarBuilder::JsonArray::Needed needed;
  const auto with_needed = [&](Terms item) {
    item.insert(item.end(), arrays.needed.begin(), arrays.needed.end());
    return value(std::move(item));
  };
  for (size_t i = 0; i < arrays.first.size(); ++i)
    needed.first.push_back(i < arrays.needed_from ? builder_.nothing() : with_needed(arrays.first[i]));
  if (arrays.rest) needed.rest = with_needed(*arrays.rest);
  return needed;
}

// In OpenAI's strict mode, an object with "properties" allows no undeclared members. Without "properties" it
// allows them, because otherwise only {} would be valid.
bool SchemaCompiler::is_closed(const ObjectFacts& facts) const {
  const auto has = [&](std::string_view keyword) {
    return std::ranges::any_of(
        facts.sources, [&](const Json* source) { return SchemaDocument::find(*source, keyword) != nullptr; });
  };
  return options_.is_strict && has("properties") && !has("additionalProperties") &&
         !has("patternProperties") && facts.unevaluated.empty();
}

// Returns the node of a member's value. Each schema of `facts` applies its properties and patterns that match
// the name; if none match, its additionalProperties.
NodeId SchemaCompiler::member(const ObjectFacts& facts, const std::string& name) {
  if (std::ranges::find(facts.absent, name) != facts.absent.end()) return builder_.nothing();
  if (!may_hold(name, facts.names)) return builder_.nothing();
  Fuel& fuel = builder_.expressions().fuel();
  fuel.spend(facts.sources.size());
  Terms terms;
  for (const Json* source : facts.sources) {
    bool is_declared = false;
    if (const Json* property = document_.property(*source, name)) {
      terms.push_back({property});
      is_declared = true;
    }
    if (const Json* patterns = SchemaDocument::find(*source, "patternProperties"))
      for (const auto& [pattern, schema] : patterns->items())
        if (matches_pattern(name, *source, pattern)) {
          terms.push_back({&schema});
          is_declared = true;
        }
    const Json* additional = SchemaDocument::find(*source, "additionalProperties");
    if (!is_declared && additional != nullptr) terms.push_back({additional});
  }
  for (const auto& [failing, schema] : facts.failing)
    if (failing == name) terms.push_back({schema, Term::Sense::kFails});
  const auto is_named = [&](const Json& schema) {
    fuel.spend();
    if (document_.property(schema, name) != nullptr) return true;
    const Json* patterns = SchemaDocument::find(schema, "patternProperties");
    if (patterns == nullptr) return false;
    for (const auto& entry : patterns->items())
      if (matches_pattern(name, schema, entry.key())) return true;
    return false;
  };
  for (const Unevaluated& unevaluated : facts.unevaluated)
    if (!unevaluated.mentions_member(is_named)) terms.push_back({unevaluated.value});
  return value(std::move(terms));
}

// Returns assertions about a member that no schema declares. `patterns`: the matching patternProperties.
Terms SchemaCompiler::undeclared_terms(const ObjectFacts& facts,
                                       const std::vector<const Json*>& patterns) const {
  Terms terms;
  for (const Json* source : facts.sources) {
    bool is_matched = false;
    if (const Json* all = SchemaDocument::find(*source, "patternProperties"))
      for (const Json& schema : *all)
        if (std::ranges::find(patterns, &schema) != patterns.end()) {
          terms.push_back({&schema});
          is_matched = true;
        }
    const Json* additional = SchemaDocument::find(*source, "additionalProperties");
    if (!is_matched && additional != nullptr) terms.push_back({additional});
  }
  const auto is_named = [&](const Json& schema) {
    const Json* all = SchemaDocument::find(schema, "patternProperties");
    return all != nullptr && std::ranges::any_of(*all, [&](const Json& matched) {
             return std::ranges::find(patterns, &matched) != patterns.end();
           });
  };
  for (const Unevaluated& unevaluated : facts.unevaluated)
    if (!unevaluated.mentions_member(is_named)) terms.push_back({unevaluated.value});
  return terms;
}

// Groups undeclared names by the patterns that they match. Each pattern splits all groups in two.
std::vector<GrammarBuilder::Undeclared> SchemaCompiler::undeclared(const ObjectFacts& facts,
                                                                   const std::vector<std::string>& names) {
  if (is_closed(facts)) return {};
  Expressions& e = builder_.expressions();
  struct Group {
    Expression names;
    std::vector<const Json*> patterns;
  };
  Expression others = names.empty() ? Expression::kAnything : e.complement(e.any_text_of(names));
  if (!facts.names.empty()) others = e.all_of(others, names_expression(facts.names));
  std::vector<Group> groups{{others, {}}};
  for (const Json* source : facts.sources) {
    const Json* patterns = SchemaDocument::find(*source, "patternProperties");
    if (patterns == nullptr) continue;
    for (const auto& [pattern, schema] : patterns->items()) {
      // If regex engines disagree on a name, it matches neither expression, so it is never generated.
      const Expression matching = regex({source, "patternProperties", pattern, false});
      const Expression not_matching = regex({source, "patternProperties", pattern, true});
      std::vector<Group> divided;
      for (const Group& group : groups) {
        Group inside{e.all_of(group.names, matching), group.patterns};
        inside.patterns.push_back(&schema);
        for (Group& part :
             std::vector<Group>{std::move(inside), {e.all_of(group.names, not_matching), group.patterns}})
          if (builder_.has_text(part.names)) divided.push_back(std::move(part));
      }
      groups = std::move(divided);
      if (groups.size() > kMaxUndeclaredGroups)
        document_.refuse(*source, "patternProperties",
                         "too many patterns overlap; make them exclude each other");
    }
  }
  std::vector<GrammarBuilder::Undeclared> found;
  for (const Group& group : groups) {
    const Terms terms = undeclared_terms(facts, group.patterns);
    const bool is_forbidden = std::ranges::any_of(
        terms, [](const Term& term) { return term.schema->is_boolean() && !term.schema->get<bool>(); });
    if (!is_forbidden) found.push_back({group.names, value(terms)});
  }
  return found;
}

NodeId SchemaCompiler::objects(const Facts& facts) {
  const ObjectFacts& objects = facts.objects;
  std::vector<std::string> names;
  std::set<std::string> seen;
  const auto add = [&](const std::string& name) {
    if (seen.insert(name).second) names.push_back(name);
  };
  for (const Json* source : objects.sources)
    if (const Json* properties = SchemaDocument::find(*source, "properties"))
      for (const auto& property : properties->items()) add(property.key());
  for (const std::string& name : objects.required) add(name);
  for (const std::string& name : objects.absent) add(name);

  const std::set<std::string> required(objects.required.begin(), objects.required.end());
  GrammarBuilder::JsonObject object{.members = {}, .undeclared = {}, .min = objects.min, .max = objects.max};
  for (const std::string& name : names)
    object.members.push_back({name, required.contains(name), member(objects, name)});
  object.undeclared = undeclared(objects, names);
  // Two undeclared members may have the same name; then they count as one.
  if (objects.min > 1 && !object.undeclared.empty()) {
    if (objects.min > names.size() + 1)
      document_.refuse(
          *objects.min_schema, "minProperties",
          "more than the number of declared members plus one is not supported; declare more members");
    if (objects.max != kUnlimited) object.undeclared.clear();
  }
  return builder_.json_object(std::move(object));
}

}  // namespace nibble::grammar
