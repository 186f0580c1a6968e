// A schema's document: where its parts are, what a $ref refers to, and the types of keywords' values.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/error.h"
#include "core/json.h"
#include "grammar/languages/schema/json.h"

namespace nibble::grammar {

struct Refusal : InputError {
  Refusal(std::string at, std::string_view of, const std::string& message)
      : InputError("{}", message), place(std::move(at)), keyword(of) {}
  std::string place;    // JSON pointer of the schema that has the keyword
  std::string keyword;  // refused keyword; "schema" for the whole schema
  // True if the keyword is supported, but not its failure (under "not", "if" or "oneOf").
  bool is_failure{false};
};

class SchemaDocument {
 public:
  // The document must outlive this object. `widened` has JSON pointers of schemas that lost keywords: whether
  // such a schema fails is unknown. Throws InputError if the document is nested too deep.
  explicit SchemaDocument(const Json& root, const std::set<std::string>& widened = {});

  bool is_widened(const Json& schema) const { return widened_.contains(&schema); }

  const Json& root() const { return root_; }
  // Whether the document is of a draft up to 7, in which keywords next to a "$ref" are ignored.
  static bool hides_siblings(const Json& root);
  bool is_reference_alone(const Json& schema) const { return hides_siblings_ && find(schema, "$ref"); }
  // Returns the schema that the "$ref" refers to.
  const Json& target(const Json& schema) const;

  // The schema of a name in "properties"; null if absent.
  const Json* property(const Json& schema, const std::string& name) const;

  // Whether the schema has no effect: true, or {}.
  static bool is_true(const Json& schema);

  // The keyword's value; null if absent. The functions below throw InputError if it has another type.
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
  // Throws a Refusal for a keyword of a schema that must fail.
  [[noreturn]] void refuse_failure(const Json& schema, std::string_view keyword, std::string_view why) const;
  // JSON pointer of a part of the document.
  std::string path_of(const Json& part) const;

 private:
  Refusal refusal(const Json& schema, std::string_view keyword, std::string_view why) const;
  const Json* at_pointer(std::string_view pointer) const;
  const Json* at_anchor(const Json& part, std::string_view name) const;

  const Json& root_;
  bool has_embedded_resources_{false}, hides_siblings_{false};
  std::set<const Json*> widened_;
  // Index of "properties" with many names; Json's objects are searched linearly.
  mutable std::unordered_map<const Json*, std::unordered_map<std::string_view, const Json*>> properties_;
};

// Whether both are the same JSON value. The order of members does not matter.
bool is_same_value(const Json& a, const Json& b);

}  // namespace nibble::grammar
