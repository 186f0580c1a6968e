// Brings the requirements on a value into disjunctive form: schemas that must all hold become branches, one
// of which must hold. A branch is a list of plain assertions; "not" is pushed down to single keywords.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "grammar/languages/schema/document.h"
#include "grammar/limits.h"

namespace nibble::grammar {

// An assertion about a value. A schema is identified by its address in the document.
struct Term {
  enum class Sense : uint8_t {
    kHolds,
    kFails,  // the schema as a whole fails
    // One keyword of the schema fails. `index` selects its required name, property, pattern or item.
    kKeywordFails,
    kHasMember,    // the value is an object with the member `name`
    kLacksMember,  // the value is not an object, or has no member `name`
    kMemberFails,  // the value is an object whose member `name` fails the schema
    kUnknown,      // the keyword fails in some way that can't be expressed
  };
  const Json* schema;
  Sense sense{Sense::kHolds};
  std::string_view keyword{};  // a string literal
  uint32_t index{0};
  std::string_view name{};  // points into the document

  auto key() const { return std::tuple(schema, sense, keyword, index, name); }
  bool operator<(const Term& other) const { return key() < other.key(); }
  bool operator==(const Term& other) const { return key() == other.key(); }
};
using Terms = std::vector<Term>;  // all terms must hold

// Types of values, as bits. A number is an integer or a fraction.
using Types = uint8_t;
inline constexpr Types kNullType{1}, kBooleanType{2}, kIntegerType{4}, kFractionType{8}, kStringType{16},
    kArrayType{32}, kObjectType{64}, kNumberTypes{kIntegerType | kFractionType}, kAllTypes{127};

struct Branch {
  // A kHolds term covers only the schema's own keywords: its $ref, allOf and so on have terms of their own.
  Terms terms;
  Types types{kAllTypes};
};

class Branches {
 public:
  // `warnings` gets a line for each keyword that fails in more ways than the branches cover.
  Branches(const SchemaDocument& document, Fuel& fuel, std::vector<std::string>& warnings)
      : document_(document), fuel_(fuel), warnings_(warnings) {}

  // Returns the branches of `terms`: every value in a branch satisfies all terms. Values that fail a schema
  // in a way that a grammar can't express are in no branch. If this leaves no branch, throws a Refusal.
  std::vector<Branch> of(const Terms& terms);

  // Throws a Refusal if of() has left out values so far, because a grammar can't express how they fail.
  void check_complete() const;

  // Throws InputError if the schema has a keyword that restricts values and is not enforced.
  void check_keywords(const Json& schema) const;

  // Whether no value satisfies the branch, judged from `depth` levels of nested schemas. Used to find members
  // of oneOf that exclude each other. Set by the owner, which knows the combined meaning of keywords.
  std::function<bool(const Branch&, uint32_t depth)> is_impossible;
  // The owner also sets the next two functions. is_found: whether every regex engine finds the pattern (of
  // patternProperties) in the name; with `is_negated`, whether no engine does. is_name: whether the name
  // satisfies the schema.
  std::function<bool(std::string_view name, const Json& schema, const std::string& pattern, bool is_negated)>
      is_found;
  std::function<bool(std::string_view name, const Json& schema)> is_name;

 private:
  using Alternatives = std::vector<Terms>;
  struct Open {
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
  void keywords_fail(const Json& schema, Alternatives& ways);
  void combinations_fail(const Json& schema, Alternatives& ways);
  void exclusions_fail(const Json& schema, Alternatives& ways);
  void conditions_fail(const Json& schema, Alternatives& ways);
  void items_fail(const Json& schema, Alternatives& ways);
  void members_fail(const Json& schema, Alternatives& ways);
  bool is_ignored(const Json& schema, std::string_view keyword) const;

  const SchemaDocument& document_;
  Fuel& fuel_;
  std::vector<std::string>& warnings_;
  std::map<const Json*, Alternatives> exclusive_;  // results of exclusive(), by schema
  // First term that drop_unknown() removed. If the grammar has no text, the refusal is about this term.
  std::optional<Term> left_out_;
  uint32_t disjoint_depth_{0};
};

// Returns the types that "type" allows; all types if the schema has no "type".
Types types_of(const SchemaDocument& document, const Json& schema);
Types type_of_value(const Json& value);

}  // namespace nibble::grammar
