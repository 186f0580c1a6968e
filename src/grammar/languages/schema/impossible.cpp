// Finds lists of assertions that no value satisfies, looking a few levels deep. Used to find members of oneOf
// that exclude each other.
#include <algorithm>

#include "grammar/languages/schema/compiler.h"

namespace nibble::grammar {

bool SchemaCompiler::is_impossible(const Terms& terms, uint32_t depth) {
  if (depth == 0) return false;
  const std::vector<Branch> branches = branches_.of(terms);
  return std::ranges::all_of(branches,
                             [&](const Branch& branch) { return is_impossible(branch, depth - 1); });
}

bool SchemaCompiler::is_impossible(const Branch& branch, uint32_t depth) {
  builder_.expressions().fuel().spend(20);
  const Facts facts = facts_of(branch, document_, warnings_);
  if (facts.values) return listed_values(branch, facts).empty();
  if (facts.types & (kNullType | kBooleanType)) return false;
  if ((facts.types & kNumberTypes) && builder_.has_text(number_expression(facts))) return false;
  if ((facts.types & kStringType) && facts.strings.min_length <= facts.strings.max_length &&
      builder_.has_text(text_expression(facts.strings, facts.excluded)))
    return false;
  if (facts.types & kArrayType) {
    const ArrayFacts& arrays = facts.arrays;
    bool is_possible = arrays.min <= arrays.max;
    for (size_t i = 0; i < std::min<size_t>(arrays.min, arrays.first.size()); ++i)
      is_possible = is_possible && !is_impossible(arrays.first[i], depth);
    if (is_possible) return false;
  }
  if (facts.types & kObjectType) {
    const ObjectFacts& objects = facts.objects;
    bool is_possible = objects.min <= objects.max && objects.required.size() <= objects.max;
    for (const std::string& name : objects.required) {
      if (std::ranges::find(objects.absent, name) != objects.absent.end()) is_possible = false;
      if (!is_possible) break;
      Terms terms;
      for (const Json* source : objects.sources) {
        const Json* property = document_.property(*source, name);
        const Json* additional = SchemaDocument::find(*source, "additionalProperties");
        if (property != nullptr) {
          terms.push_back({property});
        } else if (additional != nullptr && !SchemaDocument::find(*source, "patternProperties")) {
          terms.push_back({additional});
        }
      }
      for (const auto& [failing, schema] : objects.failing)
        if (failing == name) terms.push_back({schema, Term::Sense::kFails});
      is_possible = terms.empty() || !is_impossible(terms, depth);
    }
    if (is_possible) return false;
  }
  return true;
}

}  // namespace nibble::grammar
