#include "grammar/languages/schema/facts.h"

#include <algorithm>

#include "grammar/languages/one_line.h"

namespace nibble::grammar {
namespace {

class FactsReader {
 public:
  FactsReader(const SchemaDocument& document, std::vector<std::string>& warnings)
      : document_(document), warnings_(warnings) {}

  Facts read(const Branch& branch) {
    facts_.types = branch.types;
    facts_.arrays.rest.emplace();
    for (const Term& term : branch.terms) {
      switch (term.sense) {
        case Term::Sense::kHasMember:
          require(std::string(term.name));
          break;
        case Term::Sense::kLacksMember:
          facts_.objects.absent.emplace_back(term.name);
          break;
        case Term::Sense::kMemberFails:
          member_fails(std::string(term.name), *term.schema);
          break;
        case Term::Sense::kKeywordFails:
          fails(*term.schema, term.keyword, term.index);
          break;
        default:
          holds(*term.schema);
      }
    }
    for (const Json* schema : items_) merge_items(*schema);
    for (const Unevaluated& items : unevaluated_items_) merge_unevaluated(items);
    for (const auto& [place, schema] : failing_items_) item_fails(place, *schema);
    for (const Json* schema : all_failing_) {
      for (Terms& item : facts_.arrays.first) item.push_back({schema, Term::Sense::kFails});
      facts_.arrays.rest->push_back({schema, Term::Sense::kFails});
    }
    return std::move(facts_);
  }

 private:
  static const Json* find(const Json& schema, std::string_view keyword) {
    return SchemaDocument::find(schema, keyword);
  }

  void holds(const Json& schema) {
    if (const Json* values = document_.list(schema, "enum")) {
      std::vector<const Json*> all;
      for (const Json& value : *values) all.push_back(&value);
      restrict_values(std::move(all), values);
    }
    if (const Json* value = find(schema, "const")) restrict_values({value}, nullptr);
    numbers(schema);
    strings(schema);
    if (find(schema, "items") || find(schema, "prefixItems")) items_.push_back(&schema);
    if (const Json* item = find(schema, "contains")) need_item(schema, "contains", {item}, 0);
    at_least(facts_.arrays.min, document_.count(schema, "minItems"));
    at_most(facts_.arrays.max, document_.count(schema, "maxItems"));
    if (document_.flag(schema, "uniqueItems")) facts_.arrays.unique = &schema;
    objects(schema);
    if (auto unevaluated = unevaluated_of(document_, schema, "unevaluatedProperties"))
      facts_.objects.unevaluated.push_back(std::move(*unevaluated));
    if (auto unevaluated = unevaluated_of(document_, schema, "unevaluatedItems"))
      unevaluated_items_.push_back(std::move(*unevaluated));
  }

  // Applies unevaluatedItems to items after the longest prefixItems in its scope. No effect if a schema of
  // the scope applies to all further items.
  void merge_unevaluated(const Unevaluated& unevaluated) {
    ArrayFacts& arrays = facts_.arrays;
    size_t num_mentioned = 0;
    for (const Json* schema : unevaluated.scope) {
      const Json* first = first_items(*schema);
      if (further_items(*schema) || (schema != unevaluated.scope[0] && find(*schema, "unevaluatedItems")))
        return;
      if (first != nullptr) num_mentioned = std::max(num_mentioned, first->size());
    }
    while (arrays.first.size() < num_mentioned) arrays.first.push_back(*arrays.rest);
    for (size_t i = num_mentioned; i < arrays.first.size(); ++i)
      arrays.first[i].push_back({unevaluated.value});
    arrays.rest->push_back({unevaluated.value});
  }

  void restrict_values(std::vector<const Json*> values, const Json* list) {
    if (facts_.values && values.size() >= facts_.values->size()) return;
    facts_.values = std::move(values);
    facts_.values_of = list;
  }

  static void at_least(uint32_t& min, std::optional<uint32_t> count) {
    min = std::max(min, count.value_or(0));
  }
  static void at_most(uint32_t& max, std::optional<uint32_t> count) {
    max = std::min(max, count.value_or(kUnlimited));
  }

  void min_number(const Decimal& value, bool is_exclusive) {
    std::optional<Bound>& min = facts_.numbers.min;
    const int order = min ? compare(value, min->value) : 1;
    if (order > 0 || (order == 0 && is_exclusive)) min = {value, is_exclusive};
  }
  void max_number(const Decimal& value, bool is_exclusive) {
    std::optional<Bound>& max = facts_.numbers.max;
    const int order = max ? compare(value, max->value) : -1;
    if (order < 0 || (order == 0 && is_exclusive)) max = {value, is_exclusive};
  }

  // In draft 4, exclusiveMinimum and exclusiveMaximum are booleans that qualify minimum and maximum.
  bool is_exclusive(const Json& schema, std::string_view keyword) const {
    const Json* value = find(schema, keyword);
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  const Json* exclusive_bound(const Json& schema, std::string_view keyword) const {
    const Json* value = find(schema, keyword);
    return value != nullptr && value->is_boolean() ? nullptr : document_.number(schema, keyword);
  }

  void numbers(const Json& schema) {
    if (const Json* min = document_.number(schema, "minimum"))
      min_number(Decimal::of(*min), is_exclusive(schema, "exclusiveMinimum"));
    if (const Json* max = document_.number(schema, "maximum"))
      max_number(Decimal::of(*max), is_exclusive(schema, "exclusiveMaximum"));
    if (const Json* min = exclusive_bound(schema, "exclusiveMinimum")) min_number(Decimal::of(*min), true);
    if (const Json* max = exclusive_bound(schema, "exclusiveMaximum")) max_number(Decimal::of(*max), true);
    if (const Json* divisor = document_.number(schema, "multipleOf")) multiple_of(schema, *divisor, false);
  }

  void multiple_of(const Json& schema, const Json& divisor, bool is_negated) {
    const Decimal of = Decimal::of(divisor);
    if (of.is_negative || of.is_zero()) document_.refuse(schema, "multipleOf", "it must be above 0");
    facts_.numbers.multiples.push_back({&schema, of, is_negated});
  }

  void strings(const Json& schema) {
    at_least(facts_.strings.min_length, document_.count(schema, "minLength"));
    at_most(facts_.strings.max_length, document_.count(schema, "maxLength"));
    if (const Json* pattern = document_.text(schema, "pattern"))
      facts_.strings.patterns.push_back({&schema, "pattern", pattern->get<std::string>(), false});
    if (const Json* format = document_.text(schema, "format")) {
      const std::string& name = format->get_ref<const std::string&>();
      if (const Format* known = find_format(name)) {
        add_format(*known, facts_.strings.formats);
      } else {
        warn_once(warnings_, fmt::format("the format '{}' is unknown and not enforced", one_line(name, 60)));
      }
    }
  }

  void add_format(const Format& format, std::vector<const Format*>& to) {
    if (std::ranges::find(to, &format) == to.end()) to.push_back(&format);
    if (!format.not_checked.empty())
      warn_once(warnings_,
                fmt::format("the format '{}' is enforced except for {}", format.name, format.not_checked));
  }

  void objects(const Json& schema) {
    ObjectFacts& objects = facts_.objects;
    document_.object(schema, "properties");
    document_.object(schema, "patternProperties");
    if (find(schema, "properties") || find(schema, "patternProperties") ||
        find(schema, "additionalProperties"))
      objects.sources.push_back(&schema);
    // In draft 3 and in OpenAPI's parameters, "required" is a boolean that does not restrict the value.
    if (const Json* names = find(schema, "required"); names != nullptr && !names->is_boolean())
      for (const Json& name : *document_.list(schema, "required")) require(schema, "required", name);
    if (const Json* names = find(schema, "propertyNames")) objects.names.push_back({names});
    if (const auto min = document_.count(schema, "minProperties"); min && *min > objects.min) {
      objects.min = *min;
      objects.min_schema = &schema;
    }
    at_most(objects.max, document_.count(schema, "maxProperties"));
  }

  void member_fails(const std::string& name, const Json& schema) {
    facts_.objects.failing.emplace_back(name, &schema);
    require(name);
  }

  void need_item(const Json& schema, std::string_view keyword, const Term& term, size_t from) {
    ArrayFacts& arrays = facts_.arrays;
    arrays.needed.push_back(term);
    arrays.needed_from = std::max(arrays.needed_from, from);
    arrays.needed_of = &schema;
    arrays.needed_by = keyword;
    ++arrays.num_needed;
  }

  // Requires an item at index `place` that fails the schema.
  void item_fails(size_t place, const Json& schema) {
    ArrayFacts& arrays = facts_.arrays;
    while (arrays.first.size() <= place) arrays.first.push_back(*arrays.rest);
    arrays.first[place].push_back({&schema, Term::Sense::kFails});
    at_least(arrays.min, to_index(place + 1));
  }

  void require(const Json& schema, std::string_view keyword, const Json& name) {
    if (!name.is_string()) document_.refuse(schema, keyword, "names must be strings");
    require(name.get<std::string>());
  }
  void require(const std::string& name) {
    if (required_.insert(name).second) facts_.objects.required.push_back(name);
  }

  void merge_items(const Json& schema) {
    ArrayFacts& arrays = facts_.arrays;
    const Json *first = first_items(schema), *rest = further_items(schema);
    if (first != nullptr && !first->is_array())
      document_.refuse(schema, "prefixItems", "it must be an array");
    const size_t num_first = first != nullptr ? first->size() : 0;
    while (arrays.first.size() < num_first) arrays.first.push_back(*arrays.rest);
    for (size_t i = 0; i < arrays.first.size(); ++i) {
      const Json* item = i < num_first ? &(*first)[i] : rest;
      if (item != nullptr) arrays.first[i].push_back({item});
    }
    if (rest != nullptr) arrays.rest->push_back({rest});
  }

  void fails(const Json& schema, std::string_view keyword, uint32_t index) {
    const Json& value = *find(schema, keyword);
    const auto only = [&](Types types) { facts_.types &= types; };
    if (keyword == "type") {
      only(static_cast<Types>(~types_of(document_, schema)));
    } else if (keyword == "enum") {
      for (const Json& excluded : *document_.list(schema, "enum")) facts_.excluded.push_back(&excluded);
    } else if (keyword == "const") {
      facts_.excluded.push_back(&value);
    } else if (keyword == "minimum" || keyword == "exclusiveMinimum" || keyword == "maximum" ||
               keyword == "exclusiveMaximum") {
      only(kNumberTypes);
      number_fails(schema, keyword);
    } else if (keyword == "multipleOf") {
      only(kNumberTypes);
      multiple_of(schema, *document_.number(schema, keyword), true);
    } else if (keyword == "pattern") {
      only(kStringType);
      facts_.strings.patterns.push_back(
          {&schema, "pattern", document_.text(schema, keyword)->get<std::string>(), true});
    } else if (keyword == "format") {
      only(kStringType);
      add_format(*find_format(document_.text(schema, keyword)->get_ref<const std::string&>()),
                 facts_.strings.failing_formats);
    } else if (keyword == "minLength" || keyword == "maxLength") {
      only(kStringType);
      count_fails(schema, keyword, facts_.strings.min_length, facts_.strings.max_length);
    } else if (keyword == "minItems" || keyword == "maxItems") {
      only(kArrayType);
      count_fails(schema, keyword, facts_.arrays.min, facts_.arrays.max);
    } else if (keyword == "minProperties" || keyword == "maxProperties") {
      only(kObjectType);
      count_fails(schema, keyword, facts_.objects.min, facts_.objects.max);
      facts_.objects.min_schema = &schema;
    } else if (keyword == "required") {
      only(kObjectType);
      if (!value[index].is_string()) document_.refuse(schema, "required", "it must be an array of strings");
      facts_.objects.absent.push_back(value[index].get<std::string>());
    } else if (keyword == "properties") {
      only(kObjectType);
      const auto property = std::next(value.begin(), static_cast<ptrdiff_t>(index));
      member_fails(property.key(), *property);
    } else if (keyword == "prefixItems" || (keyword == "items" && value.is_array())) {
      only(kArrayType);
      failing_items_.emplace_back(index, &value[index]);
    } else if (keyword == "items" || keyword == "additionalItems") {
      only(kArrayType);
      const Json* first = first_items(schema);
      need_item(schema, keyword, {&value, Term::Sense::kFails}, first != nullptr ? first->size() : 0);
    } else if (keyword == "contains") {
      only(kArrayType);
      all_failing_.push_back(&value);
    }
  }

  void count_fails(const Json& schema, std::string_view keyword, uint32_t& min, uint32_t& max) {
    const uint32_t count = *document_.count(schema, keyword);
    if (keyword.starts_with("max")) {
      min = std::max(min, count + 1);
    } else if (count == 0) {
      facts_.types = 0;
    } else {
      max = std::min(max, count - 1);
    }
  }

  // Adds the opposite bound: a lower bound fails at smaller numbers, an upper bound at larger ones.
  void number_fails(const Json& schema, std::string_view keyword) {
    const bool is_draft_4_flag = find(schema, keyword)->is_boolean();
    // a draft 4 flag only qualifies the bound next to it; the bound's own failure is another case
    if (is_draft_4_flag) {
      facts_.types = 0;
    } else if (keyword == "minimum") {
      max_number(Decimal::of(*document_.number(schema, keyword)), !is_exclusive(schema, "exclusiveMinimum"));
    } else if (keyword == "maximum") {
      min_number(Decimal::of(*document_.number(schema, keyword)), !is_exclusive(schema, "exclusiveMaximum"));
    } else if (keyword == "exclusiveMinimum") {
      max_number(Decimal::of(*document_.number(schema, keyword)), false);
    } else {
      min_number(Decimal::of(*document_.number(schema, keyword)), false);
    }
  }

  const SchemaDocument& document_;
  std::vector<std::string>& warnings_;
  Facts facts_;
  std::vector<const Json*> items_;
  std::vector<std::pair<uint32_t, const Json*>> failing_items_;
  std::vector<const Json*> all_failing_;  // schemas that every item must fail
  std::vector<Unevaluated> unevaluated_items_;
  std::set<std::string> required_;
};

}  // namespace

const Json* first_items(const Json& schema) {
  const Json* items = SchemaDocument::find(schema, "items");
  return items != nullptr && items->is_array() ? items : SchemaDocument::find(schema, "prefixItems");
}

const Json* further_items(const Json& schema) {
  const Json* items = SchemaDocument::find(schema, "items");
  return items != nullptr && items->is_array() ? SchemaDocument::find(schema, "additionalItems") : items;
}

uint32_t ArrayFacts::most() const {
  const bool has_rest = std::ranges::none_of(
      *rest, [](const Term& term) { return term.sense == Term::Sense::kHolds && *term.schema == false; });
  return has_rest ? max : std::min(max, to_index(first.size()));
}

void warn_once(std::vector<std::string>& warnings, const std::string& warning) {
  if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
}

Facts facts_of(const Branch& branch, const SchemaDocument& document, std::vector<std::string>& warnings) {
  return FactsReader(document, warnings).read(branch);
}

}  // namespace nibble::grammar
