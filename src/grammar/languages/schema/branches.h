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
    kKeywordFails,  // this keyword of it; `index`: of the required name, or of the property
    kHasMember,  // an object has the member that is named by entry `index` of the keyword, and those that this entry lists
    kLacksMember,  // it has not, if it is an object
  };
  const Json* schema;
  Sense sense{Sense::kHolds};
  std::string_view keyword{};  // a literal of this program
  uint32_t index{0};

  auto key() const { return std::tuple(schema, sense, keyword, index); }
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
  Branches(const SchemaDocument& document, Fuel& fuel) : document_(document), fuel_(fuel) {}

  std::vector<Branch> of(const Terms& terms);

  // Throws InputError if the schema has a keyword that would change what is valid and is not enforced.
  void check_keywords(const Json& schema) const;

  // True if no value fulfils the branch, as far as a look `depth` levels deep tells; asked to find which members of a oneOf exclude
  // each other. Set by who knows what a branch's keywords mean together.
  std::function<bool(const Branch&, uint32_t depth)> is_impossible;

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
  Types types_of_failure(const Term& term) const;
  void add_dependencies(Open& open, const Json& schema, std::string_view keyword, uint32_t depth);
  const Json& schema_at(const Json& schema, std::string_view keyword) const;
  const Alternatives& exclusive(const Json& schema);
  bool are_disjoint(const Json& a, const Json& b);
  Alternatives failures(const Json& schema);
  bool is_ignored(const Json& schema, std::string_view keyword) const;

  const SchemaDocument& document_;
  Fuel& fuel_;
  std::map<const Json*, Alternatives> exclusive_;  // of each schema's oneOf
  uint32_t disjoint_depth_{0};
};

// The types that a schema's "type" allows; all without one.
Types types_of(const SchemaDocument& document, const Json& schema);
Types type_of_value(const Json& value);

}  // namespace nibble::grammar
