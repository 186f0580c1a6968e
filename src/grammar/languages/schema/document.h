// A schema's document: finds its parts and the targets of $ref, and checks the types of keywords' values.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/errors/error.h"
#include "core/text/json.h"

namespace nibble::grammar {

struct Refusal : InputError {
  Refusal(std::string at, std::string_view of, const std::string& message)
      : InputError("{}", message), place(std::move(at)), keyword(of) {}
  std::string place;    // JSON pointer of the schema that has the keyword
  std::string keyword;  // refused keyword; "schema" for the whole schema
  // True if nibble supports the keyword, but not its negation (under "not", "if" or "oneOf").
  bool is_failure{false};
};

class SchemaDocument {
 public:
  // The document must outlive this object. `widened`: JSON pointers of schemas that lost keywords, so that it
  // is unknown whether they fail. Throws InputError if the document is nested too deep.
  explicit SchemaDocument(const Json& root, const std::set<std::string>& widened = {});

  bool is_widened(const Json& schema) const { return widened_.contains(&schema); }

  const Json& root() const { return root_; }
  // Whether the document follows JSON Schema draft 7 or an earlier one, in which keywords next to a "$ref"
  // are ignored.
  static bool hides_siblings(const Json& root);
  bool is_reference_alone(const Json& schema) const { return hides_siblings_ && find(schema, "$ref"); }
  // Returns the schema that the "$ref" refers to.
  const Json& target(const Json& schema) const;

  // Returns the schema of a name in "properties"; null if absent.
  const Json* property(const Json& schema, const std::string& name) const;

  // Whether the schema has no effect: true, or {}.
  static bool is_true(const Json& schema);

  // Returns the keyword's value; null if absent. The functions below throw InputError for a value of another
  // type.
  static const Json* find(const Json& schema, std::string_view keyword);
  // Values above 2^32 - 2 are returned as 2^32 - 2.
  std::optional<uint32_t> count(const Json& schema, std::string_view keyword) const;
  const Json* number(const Json& schema, std::string_view keyword) const;
  const Json* text(const Json& schema, std::string_view keyword) const;
  const Json* list(const Json& schema, std::string_view keyword) const;
  const Json* object(const Json& schema, std::string_view keyword) const;
  bool flag(const Json& schema, std::string_view keyword) const;

  // Throws a Refusal: "schema: 'minLength' at #/properties/name: WHY".
  [[noreturn]] void refuse(const Json& schema, std::string_view keyword, std::string_view why) const;
  // Throws a Refusal with is_failure: the schema must fail, and nibble can't make this keyword fail.
  [[noreturn]] void refuse_failure(const Json& schema, std::string_view keyword, std::string_view why) const;
  // Returns the JSON pointer of a part of the document.
  std::string path_of(const Json& part) const;

 private:
  Refusal refusal(const Json& schema, std::string_view keyword, std::string_view why) const;
  const Json* at_pointer(std::string_view pointer) const;
  const Json* at_anchor(const Json& part, std::string_view name) const;

  const Json& root_;
  bool has_embedded_resources_{false}, hides_siblings_{false};
  std::set<const Json*> widened_;
  // Index of "properties" with many names, because Json's objects are searched linearly.
  mutable std::unordered_map<const Json*, std::unordered_map<std::string_view, const Json*>> properties_;
};

// Whether a and b are the same JSON value; the order of members does not matter.
bool is_same_value(const Json& a, const Json& b);

}  // namespace nibble::grammar
