// A schema's document: where things are in it, what a $ref names, and the checks that a keyword's value is of the right kind.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/error.h"
#include "core/json.h"
#include "grammar/languages/schema/json_schema.h"

namespace nibble::grammar {

// A keyword can't be enforced.
struct Refusal : InputError {
  Refusal(std::string at, std::string_view of, const std::string& message)
      : InputError("{}", message), place(std::move(at)), keyword(of) {}
  std::string place;       // of the schema that has it: a JSON pointer
  std::string keyword;     // or "schema": the whole of it
  bool is_failure{false};  // that the schema fails is what can't be enforced
};

class SchemaDocument {
 public:
  // The document must outlive this. `widened`: JSON pointers of schemas that have lost keywords, of which therefore nobody knows when they
  // fail. Throws InputError if it is nested too deep.
  explicit SchemaDocument(const Json& root, const std::set<std::string>& widened = {});

  bool is_widened(const Json& schema) const { return widened_.contains(&schema); }

  const Json& root() const { return root_; }
  // True if the document is of a draft in which nothing that stands beside a "$ref" counts: up to 7.
  static bool hides_siblings(const Json& root);
  bool is_reference_alone(const Json& schema) const { return hides_siblings_ && find(schema, "$ref"); }
  // Finds what the schema's "$ref" names.
  const Json& target(const Json& schema) const;

  // The schema of a name in "properties"; null if there is none.
  const Json* property(const Json& schema, const std::string& name) const;

  // A schema that says nothing: true, or {}.
  static bool is_true(const Json& schema);

  // The keyword's value; null if there is none. The others throw InputError if it is of another kind.
  static const Json* find(const Json& schema, std::string_view keyword);
  std::optional<uint32_t> count(const Json& schema, std::string_view keyword) const;  // above 2^32 - 2: that
  const Json* number(const Json& schema, std::string_view keyword) const;
  const Json* text(const Json& schema, std::string_view keyword) const;
  const Json* list(const Json& schema, std::string_view keyword) const;
  const Json* object(const Json& schema, std::string_view keyword) const;
  bool flag(const Json& schema, std::string_view keyword) const;

  // Throws a Refusal: "schema: 'minLength' at #/properties/name: WHY".
  [[noreturn]] void refuse(const Json& schema, std::string_view keyword, std::string_view why) const;
  // The same, where the schema must not hold.
  [[noreturn]] void refuse_failure(const Json& schema, std::string_view keyword, std::string_view why) const;
  // The JSON pointer of a part of the document.
  std::string path_of(const Json& part) const;

 private:
  Refusal refusal(const Json& schema, std::string_view keyword, std::string_view why) const;
  const Json* at_pointer(std::string_view pointer) const;
  const Json* at_anchor(const Json& part, std::string_view name) const;

  const Json& root_;
  bool has_embedded_resources_{false}, hides_siblings_{false};
  std::set<const Json*> widened_;
  // Kept for "properties" that are too many to search one by one, as Json's objects do.
  mutable std::unordered_map<const Json*, std::unordered_map<std::string_view, const Json*>> properties_;
};

// Equality of values: the order of members does not matter.
bool is_same_value(const Json& a, const Json& b);

}  // namespace nibble::grammar
