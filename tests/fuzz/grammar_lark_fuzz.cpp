// Compiles the input as Lark (inputs of odd size as the argument of a call) and follows a text. Either the
// grammar is refused, or its masks pass the checks of grammar_masks.h.
#include <string_view>

#include "core/errors/error.h"
#include "grammar/languages/lark.h"
#include "tests/fuzz/grammar_masks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nibble::grammar;
  try {
    check_masks(compile_lark({reinterpret_cast<const char*>(data), size}, size % 2 == 1 ? "input" : ""),
                size);
  } catch (const nibble::InputError&) {
  }
  return 0;
}
