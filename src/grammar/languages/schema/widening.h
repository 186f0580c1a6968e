// Takes out of a schema what can't be enforced, for tools: a call of which one keyword is open is better than one of which all is.
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
  // JSON pointers of schemas that have lost keywords, or of which it is not enforced that they fail.
  const std::set<std::string>& places() const { return places_; }
  // A line for each loss.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Each takes something out. False if there is nothing left to take.
  bool drop(const Refusal& refusal);
  bool simplify(std::string place);  // the schema there, or the next one around it that can be made simpler

 private:
  bool open_schema(Json& schema, const std::string& place);
  bool simplify_schema(Json& schema, const std::string& place);
  bool remove(Json& schema, const std::string& place, const std::string& keyword);
  void drop_keyword(Json& schema, const std::string& place, const std::string& keyword);

  Json schema_;
  std::set<std::string> places_;
  std::vector<std::string> warnings_;
};

// The texts of objects that fulfil the schema as far as it can be enforced: SchemaOptions::drops_unenforceable.
Compiled compile_widened(const Json& schema, const SchemaOptions& options);

}  // namespace nibble::grammar
