// Brings what a value must fulfil into disjunctive form: schemas that must hold together are taken apart into branches, one of which must
// hold, and a branch is a list of plain assertions without alternatives. "not" is pushed down to single keywords on the way.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "grammar/languages/schema/document.h"
#include "grammar/limits.h"

namespace nibble::grammar {

// One assertion. Schemas are named by their place in the document.
struct Term {
  enum class Sense : uint8_t {
    kHolds,         // the schema
    kFails,         // the schema as a whole
    kKeywordFails,  // this keyword of it; `index`: of the required name, the property, the pattern, or the item
    kHasMember,     // an object that has the member `name`
    kLacksMember,  // if it is an object, it has no member `name`
    kMemberFails,  // an object that has the member `name`, for which the schema fails
    kUnknown,      // how else this keyword of it can fail can't be said
  };
  const Json* schema;
  Sense sense{Sense::kHolds};
  std::string_view keyword{};  // a literal of this program
  uint32_t index{0};
  std::string_view name{};  // in the document

  auto key() const { return std::tuple(schema, sense, keyword, index, name); }
  bool operator<(const Term& other) const { return key() < other.key(); }
  bool operator==(const Term& other) const { return key() == other.key(); }
};
using Terms = std::vector<Term>;  // all of them must hold

// Types of values, as bits. A number is an integer or a fraction.
using Types = uint8_t;
inline constexpr Types kNullType{1}, kBooleanType{2}, kIntegerType{4}, kFractionType{8}, kStringType{16},
    kArrayType{32}, kObjectType{64}, kNumberTypes{kIntegerType | kFractionType}, kAllTypes{127};

struct Branch {
  Terms
      terms;  // of kHolds only the schema's own keywords count: its $ref, allOf and so on are terms of their own
  Types types{kAllTypes};
};

class Branches {
 public:
  // `warnings` gets a line for each keyword of which not all ways to fail are followed.
  Branches(const SchemaDocument& document, Fuel& fuel, std::vector<std::string>& warnings)
      : document_(document), fuel_(fuel), warnings_(warnings) {}

  // Every value of a branch fulfils the terms. Where a schema must not hold, not every value that fulfils them need be of a branch: some
  // keywords can fail in ways that a grammar can't tell. Throws a Refusal if nothing is left for that reason.
  std::vector<Branch> of(const Terms& terms);

  // Throws a Refusal if ways to fail were left out.
  void check_complete() const;

  // Throws InputError if the schema has a keyword that would change what is valid and is not enforced.
  void check_keywords(const Json& schema) const;

  // True if no value fulfils the branch, as far as a look `depth` levels deep tells; asked to find which members of a oneOf exclude
  // each other. Set by who knows what a branch's keywords mean together.
  std::function<bool(const Branch&, uint32_t depth)> is_impossible;
  // Tell of a member's name if a pattern of the schema's patternProperties is found in it in every reading of regular expressions, or in
  // none; and if it fulfils a schema.
  std::function<bool(std::string_view name, const Json& schema, const std::string& pattern, bool is_negated)>
      is_found;
  std::function<bool(std::string_view name, const Json& schema)> is_name;

 private:
  using Alternatives = std::vector<Terms>;
  struct Open {  // a branch that is being made
    Branch branch;
    std::set<Term> seen;
    std::vector<Alternatives> choices;
    bool is_dead{false};
  };

  void add(Open& open, const Term& term, uint32_t depth);
  void add_holding(Open& open, const Json& schema, uint32_t depth);
  void add_failing(Open& open, const Json& schema, uint32_t depth);
  void choose(Open& open, Alternatives alternatives, uint32_t depth);
  void drop_impossible(Alternatives& alternatives, Types types) const;
  void name_members(const Branch& branch, Alternatives& alternatives);
  std::optional<Term> drop_unknown(Alternatives& alternatives);
  [[noreturn]] void refuse(const Term& left_out) const;
  bool may_name(const Term& failing, std::string_view name);
  Types types_of_failure(const Term& term) const;
  void add_dependencies(Open& open, const Json& schema, std::string_view keyword, uint32_t depth);
  void check_dependency(const Json& schema, std::string_view keyword, const Json& entry) const;
  const Json& schema_at(const Json& schema, std::string_view keyword) const;
  const Alternatives& exclusive(const Json& schema);
  bool are_disjoint(const Json& a, const Json& b);
  Alternatives failures(const Json& schema);
  void items_fail(const Json& schema, Alternatives& ways);
  void members_fail(const Json& schema, Alternatives& ways);
  bool is_ignored(const Json& schema, std::string_view keyword) const;

  const SchemaDocument& document_;
  Fuel& fuel_;
  std::vector<std::string>& warnings_;
  std::map<const Json*, Alternatives> exclusive_;  // of each schema's oneOf
  std::optional<Term> left_out_;                   // the first of those that could not be said
  uint32_t disjoint_depth_{0};
};

// The types that a schema's "type" allows; all without one.
Types types_of(const SchemaDocument& document, const Json& schema);
Types type_of_value(const Json& value);

}  // namespace nibble::grammar
