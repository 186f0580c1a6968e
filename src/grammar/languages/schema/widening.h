// Drops unenforceable keywords from a schema: one unchecked keyword is better than an unchecked tool call.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "grammar/languages/schema/document.h"

namespace nibble::grammar {

class Widening {
 public:
  explicit Widening(const Json& schema);

  const Json& schema() const { return schema_; }
  // Returns the JSON pointers of schemas that have lost keywords, or whose failure is not enforced.
  const std::set<std::string>& places() const { return places_; }
  // Returns one line for each removed part.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // drop() and simplify() return false if they find nothing to remove.
  bool drop(const Refusal& refusal);
  // Simplifies the schema at `place`, or the nearest schema around it that can be simplified.
  bool simplify(std::string place);

 private:
  bool open_schema(Json& schema, const std::string& place);
  bool simplify_schema(Json& schema, const std::string& place);
  bool remove(Json& schema, const std::string& place, const std::string& keyword);
  void drop_keyword(Json& schema, const std::string& place, const std::string& keyword);

  Json schema_;
  std::set<std::string> places_;
  std::vector<std::string> warnings_;
};

}  // namespace nibble::grammar
