#include "grammar/languages/schema/json_schema.h"

#include <string>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "grammar/languages/schema/compiler.h"
#include "grammar/languages/schema/widening.h"

namespace nibble::grammar {
namespace {

// Implements SchemaOptions::drops_unenforceable: drops parts of the schema, at worst all, until it compiles.
Compiled compile_widened(const Json& schema, const SchemaOptions& options) {
  constexpr uint64_t kMaxWork{4 * kCompileFuel};  // fuel for all attempts together
  std::string why;
  try {
    Widening widening(schema);
    for (uint64_t spent = 0; spent <= kMaxWork;) {
      SchemaCompiler compiler(widening.schema(), options, widening.places());
      bool is_wider = false;
      try {
        Compiled compiled = compiler.compile();
        compiled.warnings.insert(compiled.warnings.begin(), widening.warnings().begin(),
                                 widening.warnings().end());
        return compiled;
      } catch (const Refusal& refusal) {
        is_wider = widening.drop(refusal);
        why = refusal.what();
      } catch (const NoText& error) {
        is_wider = widening.simplify(compiler.impossible_place());
        why = error.what();
      } catch (const InputError& error) {
        is_wider = widening.simplify(compiler.dearest_place());
        why = error.what();
      }
      if (!is_wider) break;
      spent += kCompileFuel - compiler.fuel_left();
    }
  } catch (const InputError& error) {
    why = error.what();
  }
  Compiled any = compile_json_object();
  any.warnings.push_back("the schema is not enforced: " + why);
  return any;
}

}  // namespace

Compiled compile_json_schema(const Json& schema, const SchemaOptions& options) {
  if (options.drops_unenforceable) return compile_widened(schema, options);
  return SchemaCompiler(schema, options).compile();
}

Compiled compile_json_object() {
  const Json schema{{"type", "object"}};
  return compile_json_schema(schema);
}

}  // namespace nibble::grammar
